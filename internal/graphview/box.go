package graphview

import "strings"

const boxBadges = 32 // columns of badges in one line of a box

// box is a node as text in a frame.
type box struct {
	lines  []line
	frame  frame
	style  string // SGR parameters of the frame
	width  int
	double bool // a second right border, for a node with several items
}

type line struct {
	sign, text string
	signStyle  string
	style      string
}

func (t texter) box(n Node) box {
	b := box{frame: t.set.solid, style: stylePlain, double: n.Kind == Foreach}
	title := line{text: t.fit(n.title()), style: styleTitle}
	if n.State != "" {
		l := lookFor(n.State)
		title.sign, title.signStyle = t.sign(l), l.ansi
		b.style = l.ansi
	}
	if n.Kind == Folded {
		title.style, b.style = styleFaint, styleFaint
	}
	if n.Kind == Folded || n.Kind == Handler {
		b.frame = t.set.dashed
	}
	b.lines = append(b.lines, title)
	for _, badges := range pack(n.Badges, ", ", min(t.detail, boxBadges)) {
		b.lines = append(b.lines, line{text: t.fit(badges), style: styleFaint})
	}
	for _, l := range b.lines {
		b.width = max(b.width, l.width()+4)
	}
	if b.double {
		b.width++
	}
	if n.Kind != Handler {
		b.width |= 1 // an odd width has a middle column
	}
	return b
}

// fit makes text safe for one line and shortens it to t.detail columns, with an ellipsis at the cut. With the ASCII option it
// writes any "…" as "...".
func (t texter) fit(s string) string {
	s = clean(s)
	if t.o.ASCII {
		s = strings.ReplaceAll(s, "…", "...")
	}
	return clip(s, t.detail, t.set.ellipsis)
}

func (l line) width() int {
	w := textWidth(l.text)
	if l.sign != "" {
		w += textWidth(l.sign) + 1
	}
	return w
}

func (b box) height() int { return len(b.lines) + 2 }

func (b box) draw(c *canvas, x, y int) {
	right := x + b.width - 1
	if b.double {
		right--
		b.side(c, right+1, y)
	}
	f := b.frame
	bar := strings.Repeat(f[4], right-x-1)
	c.write(x, y, f[0]+bar+f[1], b.style)
	for i, l := range b.lines {
		at := y + 1 + i
		c.write(x, at, f[5], b.style)
		c.write(right, at, f[5], b.style)
		start := x + 1 + (right-x-1-l.width())/2
		if l.sign != "" {
			start = c.write(start, at, l.sign, l.signStyle) + 1
		}
		c.write(start, at, l.text, l.style)
	}
	c.write(x, y+b.height()-1, f[3]+bar+f[2], b.style)
}

func (b box) side(c *canvas, x, y int) {
	last := b.height() - 1
	c.write(x, y, b.frame[1], b.style)
	for i := 1; i < last; i++ {
		c.write(x, y+i, b.frame[5], b.style)
	}
	c.write(x, y+last, b.frame[2], b.style)
}
