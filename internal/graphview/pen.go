package graphview

import "github.com/oarlock-dev/oarlock/dagrun"

// SGR parameters of text that shows no state.
const (
	styleTitle = "1"
	styleEdge  = "90"
	styleFaint = "90"
	stylePlain = ""
)

// charset is the set of characters of a text drawing.
type charset struct {
	junctions [16]string // by directions
	pens      map[manner]pen
	solid     frame
	dashed    frame
	port      string // where a line leaves a box
	ellipsis  string
	arrow     string // before parents in a list
	tee, last string // branches of a tree
	rail, gap string
	rule      string
}

// frame is the border of a box: corners clockwise from the top left, then horizontal and vertical.
type frame [6]string

// pen draws the lines of one manner of edge.
type pen struct {
	junctions      *[16]string
	across, upward string // straight pieces
	head           string // enters a box
	means          string // text for the legend; "" = no entry
}

func (p pen) glyph(dirs int) string {
	switch dirs {
	case up, down, up | down:
		return p.upward
	case left, right, left | right:
		return p.across
	}
	return p.junctions[dirs]
}

var manners = []manner{
	{state: dagrun.OnSucceeded},
	{state: dagrun.OnFinished},
	{state: dagrun.OnStarted},
	{replaces: true},
}

// means returns in words when an edge lets its child start. It returns "" for the default, once the parent has succeeded.
func (m manner) means() string {
	switch {
	case m.replaces:
		return "replaced by"
	case m.state == dagrun.OnFinished:
		return "once finished"
	case m.state == dagrun.OnStarted:
		return "once started"
	}
	return ""
}

func (c *charset) pen(m manner) pen {
	if m.replaces {
		m.state = 0
	}
	if p, ok := c.pens[m]; ok {
		return p
	}
	return c.pens[manner{}]
}

var unicodeSet = func() *charset {
	c := &charset{
		solid:    frame{"╭", "╮", "╯", "╰", "─", "│"},
		dashed:   frame{"╭", "╮", "╯", "╰", "╌", "┆"},
		port:     "┬",
		ellipsis: "…",
		arrow:    "←",
		tee:      "├─ ", last: "└─ ", rail: "│  ", gap: "   ",
		rule: "╌",
	}
	c.junctions = [16]string{
		up | right: "╰", right | down: "╭", down | left: "╮", left | up: "╯",
		up | right | down: "├", right | down | left: "┬", down | left | up: "┤", left | up | right: "┴",
		up | right | down | left: "┼",
	}
	c.usePens([][3]string{{"─", "│", "▼"}, {"╌", "╎", "▽"}, {"┈", "┊", "◇"}, {"═", "║", "↓"}})
	return c
}()

var asciiSet = func() *charset {
	c := &charset{
		solid:    frame{"+", "+", "+", "+", "-", "|"},
		dashed:   frame{"+", "+", "+", "+", ".", ":"},
		port:     "+",
		ellipsis: "...",
		arrow:    "<-",
		tee:      "|- ", last: "`- ", rail: "|  ", gap: "   ",
		rule: ".",
	}
	for i := range c.junctions {
		c.junctions[i] = "+"
	}
	c.usePens([][3]string{{"-", "|", "v"}, {"-", ":", "f"}, {".", ":", "s"}, {"=", "!", "r"}})
	return c
}()

func (c *charset) usePens(marks [][3]string) {
	c.pens = map[manner]pen{}
	for i, m := range manners {
		c.pens[m] = pen{&c.junctions, marks[i][0], marks[i][1], marks[i][2], m.means()}
	}
}
