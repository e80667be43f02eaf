package graphview

import "strings"

// Directions in which a line leaves a spot of the canvas.
const (
	up = 1 << iota
	right
	down
	left
)

// canvas is a part of a terminal drawing. It grows as it is drawn on.
type canvas struct {
	rows [][]spot
}

type spot struct {
	text  string // "" is blank
	style string // SGR parameters
	tail  bool   // second column of a wide character
	dirs  int    // directions of a line
	line  int    // number of the line; 0 = none
}

func (c *canvas) at(x, y int) *spot {
	for y >= len(c.rows) {
		c.rows = append(c.rows, nil)
	}
	for x >= len(c.rows[y]) {
		c.rows[y] = append(c.rows[y], spot{})
	}
	return &c.rows[y][x]
}

// write puts text at column x of row y, over earlier contents, and returns the column after it. style are SGR parameters. It
// isolates text that reads from right to left. The canvas grows as needed.
func (c *canvas) write(x, y int, s, style string) int {
	start, end, _ := strings.Cut(Isolate(s), s)
	gs := glyphs(s)
	for i, g := range gs {
		text := g.text
		if i == 0 {
			text = start + text
		}
		if i == len(gs)-1 {
			text += end
		}
		*c.at(x, y) = spot{text: text, style: style}
		if g.width == 2 {
			*c.at(x+1, y) = spot{tail: true, style: style}
		}
		x += g.width
	}
	return x
}

// draw adds a piece of the line with the number line to the spot at column x of row y. dirs are the directions in which the piece
// leaves the spot. Pieces of one line join. If two lines cross, the vertical one stays whole, so that a crossing never looks like a
// junction.
func (c *canvas) draw(x, y, dirs, line int, p pen) {
	s := c.at(x, y)
	if s.line != 0 && s.line != line {
		if s.dirs == up|down {
			return
		}
		s.dirs = 0
	}
	s.dirs |= dirs
	s.line = line
	s.text, s.style = p.glyph(s.dirs), styleEdge
}

func (c *canvas) upright(x, from, to, line int, p pen) {
	for y := from; y < to; y++ {
		c.draw(x, y, up|down, line, p)
	}
}

func (c *canvas) paste(other *canvas, x, y int) {
	for dy, row := range other.rows {
		for dx, s := range row {
			*c.at(x+dx, y+dy) = s
		}
	}
}

func (c *canvas) width() int {
	w := 0
	for _, row := range c.rows {
		w = max(w, len(row))
	}
	return w
}

// lines returns the rows of the canvas as text, without trailing blanks. With colour the text has SGR escapes.
func (c *canvas) lines(colour bool) []string {
	out := make([]string, len(c.rows))
	for y, row := range c.rows {
		for len(row) > 0 && row[len(row)-1].text == "" && !row[len(row)-1].tail {
			row = row[:len(row)-1]
		}
		out[y] = renderRow(row, colour)
	}
	return out
}

func renderRow(row []spot, colour bool) string {
	var b strings.Builder
	style := ""
	set := func(s string) {
		if !colour || s == style {
			return
		}
		if style != "" {
			b.WriteString("\x1b[0m")
		}
		if s != "" {
			b.WriteString("\x1b[" + s + "m")
		}
		style = s
	}
	for _, s := range row {
		switch {
		case s.tail:
		case s.text == "":
			set("")
			b.WriteByte(' ')
		default:
			set(s.style)
			b.WriteString(s.text)
		}
	}
	set("")
	return b.String()
}
