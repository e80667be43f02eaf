package graphview

import (
	"fmt"
	"strings"
)

// TextOptions describe the terminal.
type TextOptions struct {
	Width  int  // columns; 0 counts as 80
	Colour bool // ANSI colours
	ASCII  bool // nothing but ASCII for lines and signs; labels stay as they are
}

const (
	defaultWidth = 80
	minWidth     = 20
	maxBoxes     = 40 // largest graph that is drawn as boxes
	maxPortCells = 4000
	listFan      = 5 // nodes of a fan that a list keeps
)

// Text draws a view for a terminal: boxes in layers with lines between them if these fit the width, or else a list. The handlers
// and an explanation of the signs follow. A width below minWidth counts as minWidth.
func Text(v View, o TextOptions) string {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	o.Width = max(o.Width, minWidth)
	t := texter{o: o, set: unicodeSet}
	if o.ASCII {
		t.set = asciiSet
	}
	steps, handlers := v.split()
	var page canvas
	t.heading(&page, v.Name)
	if !t.boxes(&page, steps) {
		t.list(&page, Fold(steps, listFan))
	}
	t.lane(&page, handlers)
	t.legend(&page, v)
	return strings.Join(page.lines(o.Colour), "\n") + "\n"
}

// texter draws with the options of one call.
type texter struct {
	o      TextOptions
	set    *charset
	detail int // longest text in a box
}

func (t texter) heading(page *canvas, name string) {
	if name = clip(clean(name), t.o.Width, t.set.ellipsis); name != "" {
		page.write(0, 0, name, styleTitle)
		page.at(0, 1)
	}
}

// boxes draws the steps as boxes, in ever narrower versions until one fits: first it folds fans, then it cuts labels. It returns
// false, and draws nothing, if no version fits.
func (t texter) boxes(page *canvas, steps View) bool {
	if len(steps.Nodes) == 0 {
		return true
	}
	var folds []View
	for _, keep := range []int{maxBoxes, 6, 4, 2, 1} {
		if v := Fold(steps, keep); len(v.Nodes) <= maxBoxes {
			folds = append(folds, v)
		}
	}
	for _, t.detail = range []int{40, 20, 12} {
		for _, v := range folds {
			if blocks, ok := t.drawAll(v); ok {
				t.shelve(page, blocks)
				return true
			}
		}
	}
	return false
}

func (t texter) drawAll(v View) ([]*canvas, bool) {
	var blocks []*canvas
	for _, part := range components(v) {
		block, ok := t.draw(part)
		if !ok {
			return nil, false
		}
		blocks = append(blocks, block)
	}
	return blocks, true
}

// shelve places blocks below the contents of the page, side by side up to the width, then in a next row.
func (t texter) shelve(page *canvas, blocks []*canvas) {
	const gap = 3
	x, y, height := 0, len(page.rows), 0
	for _, b := range blocks {
		if x > 0 && x+b.width() > t.o.Width {
			x, y, height = 0, y+height+1, 0
		}
		page.paste(b, x, y)
		x += b.width() + gap
		height = max(height, len(b.rows))
	}
}

// lane draws the handlers below the steps, under a heading, because they are no part of the graph. Without handlers it draws
// nothing.
func (t texter) lane(page *canvas, handlers []Node) {
	if len(handlers) == 0 {
		return
	}
	t.detail = min(40, t.o.Width-6) // frame and sign take six
	var blocks []*canvas
	for _, n := range handlers {
		box := t.box(n)
		var c canvas
		box.draw(&c, 0, 0)
		blocks = append(blocks, &c)
	}
	y := len(page.rows)
	if y > 0 && len(page.rows[y-1]) > 0 {
		y++
	}
	x := page.write(0, y, "handlers ", styleFaint)
	width := min(t.o.Width, max(page.width(), 40))
	page.write(x, y, strings.Repeat(t.set.rule, max(width-x, 3)), styleFaint)
	t.shelve(page, blocks)
}

// legend writes the sign of each state in v with its name and the number of nodes, and explains the edges that are not the default.
func (t texter) legend(page *canvas, v View) {
	var words []string
	count := map[string]int{}
	for _, n := range v.Nodes {
		count[n.State]++
	}
	for _, l := range looks {
		if count[l.state] > 0 {
			words = append(words, fmt.Sprintf("%s %d %s", t.sign(l), count[l.state], l.state))
		}
	}
	used := map[manner]bool{}
	for _, e := range v.Edges {
		used[e.manner()] = true
	}
	for _, m := range manners {
		if p := t.set.pen(m); used[m] && p.means != "" {
			words = append(words, p.head+" "+p.means)
		}
	}
	t.wrap(page, words)
}

func (t texter) wrap(page *canvas, words []string) {
	if len(words) == 0 {
		return
	}
	x, y := 0, len(page.rows)+1
	for _, w := range words {
		if x > 0 && x+textWidth(w) > t.o.Width {
			x, y = 0, y+1
		}
		x = page.write(x, y, w, styleFaint) + 3
	}
}

func (t texter) sign(l look) string {
	if t.o.ASCII {
		return l.ascii
	}
	return l.glyph
}
