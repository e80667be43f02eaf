package graphview

import (
	"cmp"
	"slices"
)

// order sorts the cells in every layer of s so that few links cross. It sweeps down and up in turn. A sweep down sorts each layer
// by the mean place of each cell's neighbours above, a sweep up by the neighbours below. Cells with the same mean keep the order
// that they had. order takes the best result of all sweeps, and then lets swapNeighbours improve it.
func (s *sketch) order() {
	best, crossings := s.copyLayers(), s.crossings()
	for sweep := 0; sweep < s.sweeps() && crossings > 0; sweep++ {
		s.sweepOrder(sweep%2 == 0)
		if c := s.crossings(); c < crossings {
			best, crossings = s.copyLayers(), c
		}
	}
	s.layers = best
	s.renumber()
	s.swapNeighbours()
}

// sweeps returns the number of sweeps. A large graph gets fewer, which limits the work.
func (s *sketch) sweeps() int {
	return min(maxSweeps, max(1, sweepWork/(len(s.cells)+len(s.links)+1)))
}

func (s *sketch) copyLayers() [][]int {
	c := make([][]int, len(s.layers))
	for i, row := range s.layers {
		c[i] = slices.Clone(row)
	}
	return c
}

func (s *sketch) sweepOrder(down bool) {
	for i := range s.layers {
		row := s.layers[i]
		if !down {
			row = s.layers[len(s.layers)-1-i]
		}
		mean := make(map[int]float64, len(row))
		for _, c := range row {
			mean[c] = s.meanPos(c, down)
		}
		slices.SortStableFunc(row, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
		for pos, c := range row {
			s.cells[c].pos = pos
		}
	}
}

// meanPos returns the mean place of a cell's neighbours in the layers above, or below if above is false. A place is a share of the
// length of its layer, from 0 to 1: layers may differ in length because a long edge may skip layers without bends. Without
// neighbours meanPos returns the cell's own place.
func (s *sketch) meanPos(c int, above bool) float64 {
	links := s.cells[c].down
	if above {
		links = s.cells[c].up
	}
	if len(links) == 0 {
		return s.share(c)
	}
	sum := 0.0
	for _, l := range links {
		end := s.links[l].to
		if above {
			end = s.links[l].from
		}
		sum += s.share(end)
	}
	return sum / float64(len(links))
}

func (s *sketch) share(c int) float64 {
	return (float64(s.cells[c].pos) + 0.5) / float64(len(s.layers[s.cells[c].layer]))
}

// crossings returns how many pairs of links between adjacent layers cross.
func (s *sketch) crossings() int {
	total := 0
	for i := range len(s.layers) - 1 {
		var ends []int
		for _, c := range s.layers[i] {
			first := len(ends)
			for _, l := range s.cells[c].down {
				if to := s.cells[s.links[l].to]; to.layer == i+1 {
					ends = append(ends, to.pos)
				}
			}
			slices.Sort(ends[first:])
		}
		total += inversions(ends, len(s.layers[i+1]))
	}
	return total
}

// inversions returns how many pairs of values are out of order. All values are below n. It uses a Fenwick tree.
func inversions(values []int, n int) int {
	tree := make([]int, n+1)
	total := 0
	for seen, v := range values {
		notAbove := 0
		for i := v + 1; i > 0; i -= i & -i {
			notAbove += tree[i]
		}
		total += seen - notAbove
		for i := v + 1; i <= n; i += i & -i {
			tree[i]++
		}
	}
	return total
}

const swapCells = 400 // larger sketches keep the order that the sweeps gave them

// swapNeighbours swaps adjacent cells of a layer as long as that reduces crossings, for at most maxSweeps rounds. It does nothing
// to a sketch of more than swapCells cells.
func (s *sketch) swapNeighbours() {
	if len(s.cells) > swapCells {
		return
	}
	for round, better := 0, true; better && round < maxSweeps; round++ {
		better = false
		for _, row := range s.layers {
			for i := range len(row) - 1 {
				if s.crossed(row[i], row[i+1]) > s.crossed(row[i+1], row[i]) {
					row[i], row[i+1] = row[i+1], row[i]
					better = true
				}
			}
			for pos, c := range row {
				s.cells[c].pos = pos
			}
		}
	}
}

// crossed returns the number of crossings among the links of two cells of a layer, if the cell left stood left of the cell right.
func (s *sketch) crossed(left, right int) int {
	n := 0
	for _, a := range s.cells[left].up {
		for _, b := range s.cells[right].up {
			if s.cells[s.links[a].from].pos > s.cells[s.links[b].from].pos {
				n++
			}
		}
	}
	for _, a := range s.cells[left].down {
		for _, b := range s.cells[right].down {
			if s.cells[s.links[a].to].pos > s.cells[s.links[b].to].pos {
				n++
			}
		}
	}
	return n
}
