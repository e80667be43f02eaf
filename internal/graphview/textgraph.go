package graphview

// textGraph is a connected view drawn as boxes and lines.
type textGraph struct {
	*sketch
	t     texter
	boxes []box    // by node
	gaps  [][]*bus // below each layer
	top   []int    // first row of each layer
	under []int    // row below each layer's highest box
	lines int      // number of lines drawn so far
}

// draw draws a connected view as boxes and lines. It returns false if the drawing is wider than the width or has too many cells, or
// if its lines cannot be ordered.
func (t texter) draw(v View) (*canvas, bool) {
	g := textGraph{t: t}
	for _, n := range v.Nodes {
		g.boxes = append(g.boxes, t.box(n))
	}
	g.sketch = newSketch(v)
	if len(g.cells) > maxPortCells {
		return nil, false
	}
	g.gaps = g.buses()
	g.measure()
	if !g.place(2, float64(t.o.Width)) && !g.place(1, float64(t.o.Width)) {
		return nil, false
	}
	if int(g.width()) > t.o.Width || !g.rows() {
		return nil, false
	}
	var c canvas
	for i := range g.cells {
		g.drawCell(&c, i)
	}
	for i, gap := range g.gaps {
		for _, b := range gap {
			g.drawBus(&c, b, i)
		}
	}
	return &c, true
}

// measure sets the widths of boxes and of their cells: enough for the text, and for the ports side by side.
func (g *textGraph) measure() {
	outs, ins := make([]int, len(g.cells)), make([]int, len(g.cells))
	for _, gap := range g.gaps {
		for _, b := range gap {
			for _, c := range b.from {
				outs[c]++
			}
			for _, c := range b.to {
				ins[c]++
			}
		}
	}
	for i := range g.cells {
		c := &g.cells[i]
		if c.bend() {
			continue
		}
		b := &g.boxes[c.node]
		b.width = max(b.width, 2*max(outs[i], ins[i])+1)
		c.size = float64(b.width)
	}
}

// rows sets the first row of each layer, g.top, and the row below the layer, g.under, with room for the buses between layers. It
// also sets the ports and tracks of the buses. It returns false if the buses of a gap cannot be ordered.
func (g *textGraph) rows() bool {
	y := 0
	for i, row := range g.layers {
		g.top = append(g.top, y)
		high := 1
		for _, c := range row {
			if !g.cells[c].bend() {
				high = max(high, g.boxes[g.cells[c].node].height())
			}
		}
		y += high
		g.under = append(g.under, y)
		g.ports(g.gaps[i])
		tracks, ok := tracks(g.gaps[i])
		if !ok {
			return false
		}
		y += tracks
	}
	return true
}

func (g *textGraph) drawCell(c *canvas, i int) {
	at := g.cells[i]
	if at.bend() {
		g.lines++
		m := g.links[at.up[0]].manner
		c.upright(at.edge(), g.top[at.layer], g.under[at.layer], g.lines, g.t.set.pen(m))
		return
	}
	g.boxes[at.node].draw(c, at.edge(), g.top[at.layer])
}

// drawBus draws the lines of a bus in the gap below a layer, and its ports on the boxes that it joins.
func (g *textGraph) drawBus(c *canvas, b *bus, layer int) {
	g.lines++
	pen := g.t.set.pen(b.manner)
	y := g.under[layer] + b.track
	bottom := g.top[layer+1]
	if !b.straight() {
		for x := b.lo; x <= b.hi; x++ {
			dirs := left | right
			if x == b.lo {
				dirs = right
			}
			if x == b.hi {
				dirs = left
			}
			c.draw(x, y, dirs, g.lines, pen)
		}
	}
	for i, from := range b.from {
		x := b.out[i]
		g.leave(c, from, x, pen)
		c.upright(x, g.under[layer], y, g.lines, pen)
		if !b.straight() {
			c.draw(x, y, up, g.lines, pen)
		}
	}
	for i, to := range b.to {
		x := b.in[i]
		if !b.straight() {
			c.draw(x, y, down, g.lines, pen)
			c.upright(x, y+1, bottom, g.lines, pen)
		} else {
			c.upright(x, y, bottom, g.lines, pen)
		}
		if !g.cells[to].bend() {
			c.write(x, bottom, pen.head, styleEdge)
		}
	}
}

// leave draws the port of a bus below a box, in column x, and the line from there past higher boxes of the layer. It draws nothing
// below a bend.
func (g *textGraph) leave(c *canvas, from, x int, p pen) {
	at := g.cells[from]
	if at.bend() {
		return
	}
	b := g.boxes[at.node]
	y := g.top[at.layer] + b.height()
	c.write(x, y-1, g.t.set.port, b.style)
	c.upright(x, y, g.under[at.layer], g.lines, p)
}
