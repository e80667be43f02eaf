package graphview

import (
	"cmp"
	"math"
	"slices"
)

// place sets x of every cell, in whole units, with at least gap between the cells of a layer. It goes down and up a few times, and
// moves the cells of each layer as near to their neighbours as order and gaps allow. limit is the largest width of a layer; 0:
// none. place returns false, and stops, if a layer cannot be so narrow. Rounding may still make the sketch a little wider than
// limit.
func (s *sketch) place(gap, limit float64) bool {
	for _, row := range s.layers {
		x := 0.0
		for _, c := range row {
			s.cells[c].x = x + s.cells[c].size/2
			x += s.cells[c].size + gap
		}
		if limit > 0 && x-gap > limit {
			return false
		}
	}
	for range s.sweeps() {
		for i := range s.layers {
			s.settle(s.layers[i], gap, limit, true, false)
		}
		for i := range s.layers {
			s.settle(s.layers[len(s.layers)-1-i], gap, limit, false, true)
		}
	}
	for _, row := range s.layers {
		s.settle(row, gap, limit, true, true)
	}
	s.align(gap)
	s.straightenBends(gap)
	return true
}

// settle moves the cells of one layer towards their neighbours above, below, or both, as far as order, gap and limit allow.
func (s *sketch) settle(row []int, gap, limit float64, above, below bool) {
	want, weight := make([]float64, len(row)), make([]float64, len(row))
	for i, c := range row {
		want[i], weight[i] = s.pull(c, above, below)
	}
	s.spread(row, want, weight, gap, limit)
}

// pull returns the place to which the neighbours above, below, or both pull a cell, and the strength. The place is their weighted
// median: with an odd number of neighbours the link to the middle one is straight. Without neighbours it is the cell's own place,
// with hardly any strength.
func (s *sketch) pull(c int, above, below bool) (x, weight float64) {
	type neighbour struct{ x, weight float64 }
	var all []neighbour
	add := func(other int, w float64) {
		all = append(all, neighbour{s.cells[other].x, w})
		weight += w
	}
	if above {
		for _, l := range s.cells[c].up {
			add(s.links[l].from, s.links[l].weight)
		}
	}
	if below {
		for _, l := range s.cells[c].down {
			add(s.links[l].to, s.links[l].weight)
		}
	}
	if weight == 0 {
		return s.cells[c].x, 0.01
	}
	slices.SortFunc(all, func(a, b neighbour) int { return cmp.Compare(a.x, b.x) })
	seen := 0.0
	for i, n := range all {
		seen += n.weight
		if seen*2 == weight {
			return (n.x + all[i+1].x) / 2, weight
		}
		if seen*2 > weight {
			return n.x, weight
		}
	}
	return all[len(all)-1].x, weight
}

// spread moves the cells of one layer to the places nearest to want (least squares, by weight) that keep order and gaps. want and
// weight are in the order of row. limit is the largest width; 0: none. Without the gaps this is isotonic regression, which spread
// computes by pooling adjacent violators.
func (s *sketch) spread(row []int, want, weight []float64, gap, limit float64) {
	offset := make([]float64, len(row))
	for i := 1; i < len(row); i++ {
		offset[i] = offset[i-1] + (s.cells[row[i-1]].size+s.cells[row[i]].size)/2 + gap
	}
	type pool struct {
		x, weight float64
		n         int
	}
	var pools []pool
	for i := range row {
		p := pool{want[i] - offset[i], weight[i], 1}
		for len(pools) > 0 && pools[len(pools)-1].x >= p.x {
			q := pools[len(pools)-1]
			pools = pools[:len(pools)-1]
			w := q.weight + p.weight
			p = pool{(q.x*q.weight + p.x*p.weight) / w, w, q.n + p.n}
		}
		pools = append(pools, p)
	}
	lo, hi := s.bounds(row, offset, limit)
	i := 0
	for _, p := range pools {
		for range p.n {
			s.cells[row[i]].x = min(max(p.x, lo), hi) + offset[i]
			i++
		}
	}
}

// bounds returns the least and the largest centre of the first cell of a layer with which the layer lies between 0 and limit.
// offset are the least distances from the first cell. Without a limit the range is infinite.
func (s *sketch) bounds(row []int, offset []float64, limit float64) (lo, hi float64) {
	if limit <= 0 || len(row) == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	last := len(row) - 1
	return s.cells[row[0]].size / 2, limit - s.cells[row[last]].size/2 - offset[last]
}

// align moves the sketch so that its leftmost cell begins at 0, and every cell onto whole units. With whole sizes and gaps the
// distances within a layer are whole already, so rounding keeps them.
func (s *sketch) align(gap float64) {
	left := math.Inf(1)
	for _, c := range s.cells {
		left = min(left, c.x-c.size/2)
	}
	for _, row := range s.layers {
		free := 0.0
		for _, i := range row {
			c := &s.cells[i]
			edge := max(free, math.Floor(c.x-c.size/2-left+0.5+1e-6))
			c.x = edge + c.size/2
			free = edge + c.size + gap
		}
	}
}

// straightenBends lines up the bends of an edge where their neighbours leave room: first each bend with the bend above it,
// then with the bend below it.
func (s *sketch) straightenBends(gap float64) {
	for _, row := range s.layers {
		for i, at := range row {
			if c := s.cells[at]; c.bend() {
				s.nudge(row, i, s.links[c.up[0]].from, gap)
			}
		}
	}
	for _, row := range slices.Backward(s.layers) {
		for i, at := range row {
			if c := s.cells[at]; c.bend() {
				for _, below := range c.down {
					s.nudge(row, i, s.links[below].to, gap)
				}
			}
		}
	}
}

// nudge moves cell row[i] to the x of the cell other, if other is a bend and there is room between the neighbours of row[i].
func (s *sketch) nudge(row []int, i, other int, gap float64) {
	if !s.cells[other].bend() {
		return
	}
	x := s.cells[other].x
	if i > 0 && s.apart(row[i-1], row[i], x-s.cells[row[i-1]].x) < gap {
		return
	}
	if i+1 < len(row) && s.apart(row[i], row[i+1], s.cells[row[i+1]].x-x) < gap {
		return
	}
	s.cells[row[i]].x = x
}

// apart returns the space between the borders of two cells, if their centres are at the given distance.
func (s *sketch) apart(a, b int, distance float64) float64 {
	return distance - (s.cells[a].size+s.cells[b].size)/2
}

// width returns the width of the sketch.
func (s *sketch) width() float64 {
	w := 0.0
	for _, c := range s.cells {
		w = max(w, c.x+c.size/2)
	}
	return w
}
