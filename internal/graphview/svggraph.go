package graphview

import (
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// svgGraph is a connected view drawn as cards and curves.
type svgGraph struct {
	*sketch
	v      View
	sizes  []size // by node
	top    []int  // of each layer
	high   []int
	height int
}

func newSVGGraph(v View) *svgGraph {
	g := &svgGraph{v: v}
	for _, n := range v.Nodes {
		g.sizes = append(g.sizes, cardSize(n))
	}
	g.sketch = newSketch(v)
	for i := range v.Nodes {
		g.cells[i].size = float64(g.sizes[i].w)
	}
	g.place(svgGap, 0)
	y := 0
	for _, row := range g.layers {
		high := 0
		for _, c := range row {
			if !g.cells[c].bend() {
				high = max(high, g.sizes[g.cells[c].node].h)
			}
		}
		g.top, g.high = append(g.top, y), append(g.high, high)
		y += high + svgRise
	}
	g.height = y - svgRise
	return g
}

type size struct{ w, h int }

// cardText returns the name on a card and the lines of remarks below it, each cut to svgLabel.
func cardText(n Node) (name string, more []string) {
	for _, l := range pack(n.remarks(), " · ", lineOfRemarks) {
		more = append(more, clip(clean(l), svgLabel, "…"))
	}
	return clip(clean(n.title()), svgLabel, "…"), more
}

// cardSize returns the size of a node's card in pixels. The width is even, so that the middle is a whole pixel.
func cardSize(n Node) size {
	name, more := cardText(n)
	w := textPixels(name, 13)
	for _, l := range more {
		w = max(w, textPixels(l, 11))
	}
	return size{(max(w+2*svgPadding, svgMinCard) + 1) &^ 1, svgCard + svgLine*len(more)}
}

// textPixels estimates the width of text in a proportional font of this size, in pixels. The estimate is rather too large than too
// small.
func textPixels(s string, size float64) int {
	em := 0.0
	for _, g := range glyphs(s) {
		switch {
		case g.width == 2:
			em += 1.05
		case strings.ContainsAny(g.text, "ijlftr.,:;'|!()[] "):
			em += 0.38
		case strings.ContainsAny(g.text, "mwMW@%"):
			em += 0.95
		case g.text >= "A" && g.text <= "Z":
			em += 0.74
		default:
			em += 0.64
		}
	}
	return int(em*size + 0.5)
}

func (g *svgGraph) draw(p *picture, x, y int) {
	drawn := make([]bool, len(g.links))
	for i, route := range g.routes {
		if len(route) > 0 {
			g.edge(p, i, drawn, x, y)
		}
	}
	for _, c := range g.cells {
		if c.bend() {
			continue
		}
		p.card(g.v.Nodes[c.node], x+int(c.x)-g.sizes[c.node].w/2, y+g.topOf(c), g.sizes[c.node])
	}
}

// edge draws the pieces of edge i that no earlier edge has drawn, and marks them in drawn. x and y are the place of the graph.
func (g *svgGraph) edge(p *picture, i int, drawn []bool, x, y int) {
	var path strings.Builder
	for _, l := range g.routes[i] {
		if !drawn[l] {
			drawn[l] = true
			g.piece(&path, g.links[l], x, y)
		}
	}
	if path.Len() > 0 {
		e := g.v.Edges[i]
		fmt.Fprintf(&p.body, "<path class=%q d=%q marker-end=\"url(#oarlock-tip)\"><title>%s</title></path>\n", e.manner().class(),
			path.String(), escape(g.v.Nodes[e.From].title()+" → "+g.v.Nodes[e.To].title()))
	}
}

// piece appends link l to path: a curve through the gap between layers, and a straight line through the layer of a bend. x and y
// are the place of the graph.
func (g *svgGraph) piece(path *strings.Builder, l link, x, y int) {
	from, to := g.cells[l.from], g.cells[l.to]
	x1, x2 := x+int(from.x), x+int(to.x)
	y1, y2 := y+g.bottomOf(from), y+g.topOf(to)
	if d := x2 - x1; !from.bend() && !to.bend() && d >= -svgSlack && d <= svgSlack {
		x1 = x2
	}
	if path.Len() == 0 {
		fmt.Fprintf(path, "M%d %d", x1, y1)
	}
	if mid := (y1 + y2) / 2; x1 == x2 {
		fmt.Fprintf(path, "V%d", y2)
	} else {
		fmt.Fprintf(path, "C%d %d %d %d %d %d", x1, mid, x2, mid, x2, y2)
	}
	if to.bend() {
		fmt.Fprintf(path, "V%d", y+g.bottomOf(to))
	}
}

func (g *svgGraph) topOf(c cell) int {
	if c.bend() {
		return g.top[c.layer]
	}
	return g.top[c.layer] + (g.high[c.layer]-g.sizes[c.node].h)/2
}

func (g *svgGraph) bottomOf(c cell) int {
	if c.bend() {
		return g.top[c.layer] + g.high[c.layer]
	}
	return 2*g.top[c.layer] + g.high[c.layer] - g.topOf(c)
}

func (m manner) class() string {
	switch {
	case m.replaces:
		return "edge replaced"
	case m.state == dagrun.OnFinished:
		return "edge finished"
	case m.state == dagrun.OnStarted:
		return "edge started"
	}
	return "edge"
}

// card draws a node with its upper left corner at x, y. A foreach step is a stack of cards. With p.link the card is a link.
func (p *picture) card(n Node, x, y int, s size) {
	class := "node"
	if n.State != "" {
		class += " " + lookFor(n.State).class
	}
	if n.Kind == Handler || n.Kind == Folded {
		class += " dashed"
	}
	if p.link != nil {
		href, selected := p.link(n)
		if selected {
			class += " sel"
		}
		fmt.Fprintf(&p.body, "<a href=\"%s\">", escape(href))
		defer p.body.WriteString("</a>\n")
	}
	fmt.Fprintf(&p.body, "<g class=%q><title>%s</title>\n", class, escape(strings.Join(append([]string{n.ID}, n.remarks()...), " · ")))
	stack := []int{0}
	if n.Kind == Foreach {
		stack = []int{8, 4, 0}
	}
	for _, d := range stack {
		fmt.Fprintf(&p.body, "<rect class=\"card\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", x+d, y+d, s.w, s.h)
	}
	name, more := cardText(n)
	middle, line := x+s.w/2, y+svgCard/2+5
	if len(more) > 0 {
		line -= 2
	}
	p.text("name", middle, line, name)
	for i, l := range more {
		p.text("more", middle, line+3+svgLine*(i+1), l)
	}
	p.body.WriteString("</g>\n")
}
