package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
)

const (
	usualRows = 24 // of a terminal that does not say
	leastRows = 3  // of tasks that are shown however low it is
)

// refresh draws what is known already, as time goes by.
func (w *watcher) refresh() error {
	if w.last == nil || w.progress != progressLive {
		return nil
	}
	page := *w.last
	page.now, page.watched = time.Now(), true
	return w.redraw(&page)
}

// redraw draws the page over the one before. What a terminal is too low for is summed up: at the end all is shown.
func (w *watcher) redraw(page *runPage) error {
	columns, rows := w.env.window()
	page.latest, page.live, page.columns = w.lines.of, true, w.env.pageColumns()
	lines := splitLines(page.String())
	if excess := len(lines) - (rows - 1); excess > 0 {
		page.rows = max(len(splitLines(page.taskLines()))-excess, leastRows)
		lines = splitLines(page.String())
	}
	if hidden := len(lines) - (rows - 1); hidden > 0 {
		lines = append(lines[:max(rows-2, 1)], page.dim(fmt.Sprintf("… %s more, shown at the end", runview.Count(hidden+1, "line"))))
	}
	if columns > 0 {
		for i := range lines {
			lines[i] = cut(lines[i], columns-1)
		}
	}
	text := w.over(w.lines.take() + strings.Join(lines, "\n") + "\n")
	for _, line := range lines {
		w.drawn = append(w.drawn, width(line))
	}
	return w.env.print(text)
}

// over is text in place of what was drawn. The cursor goes up and each line is written over, so that nothing flickers; a line
// that a narrower terminal has folded since counts as often as it is folded.
func (w *watcher) over(text string) string {
	if len(w.drawn) == 0 {
		return text
	}
	columns, _ := w.env.window()
	up := len(w.drawn)
	for _, n := range w.drawn {
		if columns > 0 && n > columns {
			up += (n - 1) / columns
		}
	}
	w.drawn = nil
	return fmt.Sprintf("\x1b[%dA\r", up) + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
}

func splitLines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// pageColumns are those a page may fill: not the last, since on a full line what clears the rest takes the last character.
// 0: as many as it likes.
func (e *env) pageColumns() int {
	if !e.StdoutTTY {
		return 0
	}
	columns, _ := e.window()
	return max(columns-1, 0)
}

// window is the size of the terminal now.
func (e *env) window() (columns, rows int) {
	columns, rows = e.Columns, e.Rows
	if e.Size != nil {
		columns, rows = e.Size()
	}
	if rows == 0 {
		rows = usualRows
	}
	return columns, rows
}
