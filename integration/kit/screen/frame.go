package screen

import (
	"strings"
	"time"
)

// Frame is the content of a screen, and how long it stood.
type Frame struct {
	Stood time.Duration

	columns, rows int
	lines         [][]cell
}

// String returns the text without empty lines at the end.
func (f Frame) String() string {
	s := Screen{columns: f.columns, rows: f.rows, lines: f.lines}
	return s.String()
}

// piece is a part of a line that is drawn in one go.
type piece struct {
	column, width int
	text          string
	style         Style
}

// pieces cuts a line. Plain text of one style stays together. Any other character gets a place of its own, so that it
// stands where it stood on the terminal, in any font.
func pieces(line []cell) (all []piece) {
	for i := range line {
		c := line[i]
		width := 1
		if i+1 < len(line) && line[i+1].text == "" {
			width = 2
		}
		last := len(all) - 1
		if plain(c.text) && last >= 0 && plain(all[last].text) && all[last].style == c.style && all[last].column+all[last].width == i {
			all[last].text += c.text
			all[last].width++
			continue
		}
		if c.text != "" {
			all = append(all, piece{i, width, c.text, c.style})
		}
	}
	return trim(all)
}

func plain(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// trim removes the blanks around pieces.
func trim(all []piece) (kept []piece) {
	for _, p := range all {
		p.text = strings.TrimRight(p.text, " ")
		left := strings.TrimLeft(p.text, " ")
		p.column += len(p.text) - len(left)
		if p.text = left; plain(left) {
			p.width = len(left)
		}
		if left != "" {
			kept = append(kept, p)
		}
	}
	return kept
}
