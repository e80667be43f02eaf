package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
)

const (
	usualRows = 24 // of a terminal of unknown height
	leastRows = 3  // tasks that are shown on the lowest terminal
)

// refresh draws the last page again, because durations and lines of tasks change.
func (w *watcher) refresh() error {
	if w.last == nil || w.progress != progressLive {
		return nil
	}
	page := *w.last
	page.now, page.watched = time.Now(), true
	return w.redraw(&page)
}

// redraw draws the page over the one before. It sums up the tasks that do not fit on the terminal; the page at the end
// shows all.
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

// over returns text with the control codes that draw it over the page before. The cursor goes up and each line is
// overwritten, so nothing flickers. If the terminal became narrower and folded a line, the line counts as several.
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

// pageColumns returns how many columns a page may fill; 0: no limit. It leaves out the last column: on a full line the code
// that clears the rest would clear the last character.
func (e *env) pageColumns() int {
	if !e.StdoutTTY {
		return 0
	}
	columns, _ := e.window()
	return max(columns-1, 0)
}

// window returns the current size of the terminal.
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
