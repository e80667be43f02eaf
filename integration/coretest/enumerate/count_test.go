package enumerate

// counter computes the number of histories with crashes independently: rows are stored one by one. Sets of tasks are
// bits.
type counter struct {
	parents [][]int
	fails   int
}

// paper is the state that one drive hands to the next: which tasks run, have succeeded, or have failed or are blocked by
// a failed one; and whether the run's own row says that the run has begun.
type paper struct {
	running, good, bad int
	begun              bool
}

func (p paper) settled() int { return p.good | p.bad }

// begin counts the histories that follow a stored state: every attempt under way is lost and starts again.
func (c counter) begin(p paper, crashes int) int {
	orphans := p.running
	live := p
	live.running = 0
	return c.commit(p, c.batch(live, nil), orphans, crashes)
}

// goOn counts the histories that follow while the drive lives: any body may end next.
func (c counter) goOn(p paper, crashes int) int {
	total := 0
	for i := range c.parents {
		if p.running>>i&1 == 0 {
			continue
		}
		live := p
		live.running &^= 1 << i
		if c.fails>>i&1 == 1 {
			live.bad |= 1 << i
		} else {
			live.good |= 1 << i
		}
		total += c.commit(p, c.batch(live, []paper{live}), 0, crashes)
	}
	return total
}

// batch returns the state after each row of a batch: the task that ended, the tasks it blocks, the tasks that start, the
// run's own row.
func (c counter) batch(p paper, pieces []paper) []paper {
	for range c.parents {
		for i := range c.parents {
			if _, some := c.of(i, p); some && p.settled()>>i&1 == 0 {
				p.bad |= 1 << i
				pieces = append(pieces, p)
			}
		}
	}
	for i := range c.parents {
		if all, _ := c.of(i, p); all && (p.settled()|p.running)>>i&1 == 0 {
			p.running |= 1 << i
			pieces = append(pieces, p)
		}
	}
	if !p.begun || c.ended(p) {
		p.begun = true
		pieces = append(pieces, p)
	}
	return pieces
}

// of reports whether all parents have succeeded, and whether all are settled and one of them has not succeeded.
func (c counter) of(i int, p paper) (all, blocked bool) {
	all, settled := true, true
	for _, q := range c.parents[i] {
		all = all && p.good>>q&1 == 1
		settled = settled && p.settled()>>q&1 == 1
	}
	return all, settled && !all
}

func (c counter) ended(p paper) bool { return p.settled() == 1<<len(c.parents)-1 }

// commit counts the histories that follow a batch: with a crash before any of its rows, after the last row, or with none.
// A lost attempt that starts again stays stored as running meanwhile.
func (c counter) commit(before paper, pieces []paper, orphans, crashes int) int {
	stored := func(n int) paper {
		if n == 0 {
			return before
		}
		p := pieces[n-1]
		p.running |= orphans
		return p
	}
	last, total := stored(len(pieces)), 0
	end := c.ended(last) && last.begun
	if crashes > 0 {
		for n := range pieces {
			total += c.begin(stored(n), crashes-1)
		}
		if !end {
			total += c.begin(last, crashes-1)
		}
	}
	if end {
		return total + 1
	}
	return total + c.goOn(last, crashes)
}

// histories counts the histories of a graph over all outcomes.
func histories(parents [][]int, crashes int) int {
	total := 0
	for fails := range 1 << len(parents) {
		total += counter{parents, fails}.begin(paper{}, crashes)
	}
	return total
}
