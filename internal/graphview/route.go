package graphview

import (
	"cmp"
	"fmt"
	"slices"
)

// bus carries every link of one manner between cells of one layer and their children, if the cells have exactly the same
// children in the next layer. So a reader that follows the bus from any parent to any child follows an edge.
type bus struct {
	manner  manner
	from    []int // cells
	to      []int
	out, in []int // columns of the ports
	lo, hi  int   // columns from end to end
	track   int   // row in the gap between the layers; a straight bus needs none
}

func (b *bus) straight() bool { return b.lo == b.hi }

func (b *bus) measure() {
	ends := slices.Concat(b.out, b.in)
	b.lo, b.hi = slices.Min(ends), slices.Max(ends)
}

// buses returns the links below each layer as buses, by layer. Links of one manner share a bus if their cells have exactly the same
// children. The columns of the ports are not set yet: see ports.
func (s *sketch) buses() [][]*bus {
	all := make([][]*bus, len(s.layers))
	for i, row := range s.layers {
		byChildren := map[string]*bus{}
		for _, c := range row {
			for m, to := range s.children(c) {
				if to == nil {
					continue
				}
				key := fmt.Sprint(m, to)
				b := byChildren[key]
				if b == nil {
					b = &bus{manner: manners[m], to: to, in: make([]int, len(to))}
					byChildren[key] = b
					all[i] = append(all[i], b)
				}
				b.from, b.out = append(b.from, c), append(b.out, 0)
			}
		}
	}
	return all
}

// children returns the cells below c by the index of their link in manners, each list from left to right. A list is nil if c has no
// link of that manner.
func (s *sketch) children(c int) [4][]int {
	var to [4][]int
	for _, l := range s.cells[c].down {
		m := slices.Index(manners, s.links[l].manner)
		to[max(m, 0)] = append(to[max(m, 0)], s.links[l].to)
	}
	for _, list := range to {
		slices.SortFunc(list, func(a, b int) int { return cmp.Compare(s.cells[a].pos, s.cells[b].pos) })
	}
	return to
}

// port is the place where a bus meets a cell.
type port struct {
	column *int // in bus.out or bus.in
	others float64
}

// ports sets out, in, lo and hi of every bus of a gap between layers. The ports of a box are spread around its middle, in the order
// of the cells at their other ends.
func (s *sketch) ports(gap []*bus) {
	outs, ins := map[int][]port{}, map[int][]port{}
	for _, b := range gap {
		for i, c := range b.from {
			outs[c] = append(outs[c], port{&b.out[i], s.middle(b.to)})
		}
		for i, c := range b.to {
			ins[c] = append(ins[c], port{&b.in[i], s.middle(b.from)})
		}
	}
	for _, side := range []map[int][]port{outs, ins} {
		for c, list := range side {
			slices.SortStableFunc(list, func(a, b port) int { return cmp.Compare(a.others, b.others) })
			for i, p := range list {
				*p.column = s.cells[c].centre() - (len(list) - 1) + 2*i
			}
		}
	}
	s.straighten(gap, outs, ins)
	s.separate(gap, ins)
	for _, b := range gap {
		b.measure()
	}
}

func (s *sketch) middle(cells []int) float64 {
	sum := 0.0
	for _, c := range cells {
		sum += s.cells[c].x
	}
	return sum / float64(len(cells))
}

func (c cell) edge() int   { return int(c.x - c.size/2) }
func (c cell) centre() int { return c.edge() + int(c.size)/2 }

// interior returns the first and the last column in which a cell may have ports.
func (c cell) interior() (lo, hi int) {
	if c.bend() {
		return c.edge(), c.edge()
	}
	return c.edge() + 1, c.edge() + int(c.size) - 2
}

// straighten moves ports by one column where a link then runs straight down. The port of a link between two boxes alone may move as
// far as the box allows. outs and ins are the ports of each cell.
func (s *sketch) straighten(gap []*bus, outs, ins map[int][]port) {
	for _, b := range gap {
		reach := 1
		if len(b.from) == 1 && len(b.to) == 1 {
			reach = 1 << 20
		}
		for i, to := range b.to {
			for j, from := range b.from {
				if d := b.in[i] - b.out[j]; d == 0 || d > reach || -d > reach {
					continue
				}
				if len(b.to) == 1 && len(outs[from]) == 1 && s.cells[to].bend() {
					s.move(from, outs[from], &b.out[j], b.in[i])
				} else if !s.move(to, ins[to], &b.in[i], b.out[j]) && len(b.to) == 1 && len(b.from) == 1 {
					s.meet(from, to, outs[from], ins[to], &b.out[j], &b.in[i])
				}
			}
		}
	}
}

// meet moves both ends of a link, out and in, to a common column, if there is one and the cells have no other link on these
// sides.
func (s *sketch) meet(from, to int, outs, ins []port, out, in *int) {
	lo1, hi1 := s.cells[from].interior()
	lo2, hi2 := s.cells[to].interior()
	lo, hi := max(lo1, lo2), min(hi1, hi2)
	if lo > hi || len(outs) > 1 || len(ins) > 1 {
		return
	}
	column := min(max((*out+*in)/2, lo), hi)
	*out, *in = column, column
}

// move puts the port p of cell c at a column, if the column is inside the cell, at least two columns from the cell's other ports,
// and does not change their order. It reports whether it did. ports are all ports on that side of the cell.
func (s *sketch) move(c int, ports []port, p *int, column int) bool {
	lo, hi := s.cells[c].interior()
	if column < lo || column > hi {
		return false
	}
	for _, other := range ports {
		if other.column == p {
			continue
		}
		if d := *other.column - column; d > -2 && d < 2 || (*other.column < *p) != (*other.column < column) {
			return false
		}
	}
	*p = column
	return true
}

// separate looks for ports on top of cells in a column where a different bus comes down from above, and moves each to the nearest
// column without such a bus. It leaves a port where it is if there is no such column. ins are the ports on top of each cell.
func (s *sketch) separate(gap []*bus, ins map[int][]port) {
	above := map[int]*bus{}
	for _, b := range gap {
		for _, x := range b.out {
			above[x] = b
		}
	}
	for _, b := range gap {
		for i, c := range b.to {
			if other := above[b.in[i]]; other == nil || other == b {
				continue
			}
			for d := 1; d <= int(s.cells[c].size); d++ {
				if above[b.in[i]+d] == nil && s.move(c, ins[c], &b.in[i], b.in[i]+d) ||
					above[b.in[i]-d] == nil && s.move(c, ins[c], &b.in[i], b.in[i]-d) {
					break
				}
			}
		}
	}
}

// tracks sets the track of each bus of a gap that is not straight, and returns how many tracks there are. It returns false if two
// buses would each have to be above the other.
func tracks(gap []*bus) (rows int, ok bool) {
	order, ok := stack(gap)
	for i, b := range order {
		b.track = 0
		for _, a := range order[:i] {
			if a.lo <= b.hi+1 && b.lo <= a.hi+1 {
				b.track = max(b.track, a.track+1)
			}
		}
		rows = max(rows, b.track+1)
	}
	return rows, ok
}

// stack returns the buses that are not straight in an order from the top in which few of them cross. The next bus is always the one
// with the lowest costAbove. stack returns false if no order is allowed.
func stack(gap []*bus) (order []*bus, ok bool) {
	var rest []*bus
	for _, b := range gap {
		if !b.straight() {
			rest = append(rest, b)
		}
	}
	for len(rest) > 0 {
		best, cost := -1, 0
		for i, b := range rest {
			c, allowed := b.costAbove(rest)
			if allowed && (best < 0 || c < cost) {
				best, cost = i, c
			}
		}
		if best < 0 {
			return nil, false
		}
		order = append(order, rest[best])
		rest = slices.Delete(rest, best, best+1)
	}
	return order, true
}

// costAbove returns how many more crossings b makes above the other buses than below them. allowed is false if another bus comes
// down from above in a column where b has a child: b must not be above that bus.
func (b *bus) costAbove(others []*bus) (cost int, allowed bool) {
	for _, o := range others {
		if o == b {
			continue
		}
		for _, x := range o.out {
			if slices.Contains(b.in, x) {
				return 0, false
			}
		}
		cost += within(b.in, o) + within(o.out, b) - within(o.in, b) - within(b.out, o)
	}
	return cost, true
}

// within returns how many of the columns lie between the ends of b.
func within(columns []int, b *bus) int {
	n := 0
	for _, x := range columns {
		if x >= b.lo && x <= b.hi {
			n++
		}
	}
	return n
}
