package enumerate

import (
	"errors"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Case is one graph of tasks with default rule and edges, the outcome of each body, and the controls of users.
type Case struct {
	parents [][]int
	fails   []bool
	plan    plan
	graph   *dagrun.Graph
	known   map[stored]int
}

// Count counts what was played.
type Count struct {
	Cases     int
	Histories int // complete histories
	States    int // stored states from which a drive began
}

// Add adds another count.
func (c *Count) Add(o Count) {
	c.Cases += o.Cases
	c.Histories += o.Histories
	c.States += o.States
}

// explore plays every drive from a stored state and all histories that follow, and returns how many histories there are.
func (c *Case) explore(s stored) (int, error) {
	if n, ok := c.known[s]; ok {
		return n, nil
	}
	total := 0
	for o := newOdometer(); ; {
		d := &drive{Case: c, s: s, choices: o}
		n, err := c.follow(d)
		if err != nil {
			return 0, fmt.Errorf("%s%w", d.story(), err)
		}
		total += n
		if !o.Next() {
			c.known[s] = total
			return total, nil
		}
	}
}

// follow plays one drive and the histories that follow it.
func (c *Case) follow(d *drive) (int, error) {
	end, err := d.play()
	if err != nil {
		return 0, err
	}
	switch end {
	case parked:
		if !c.plan.mayWake(&d.s) {
			return 0, errors.New("parked, and nobody will wake it")
		}
		d.s.asked++
	case finished:
		if err := c.check(&d.s); err != nil || !c.plan.mayRetry(&d.s) {
			return 1, err
		}
		d.s.asked++
		d.s.run.State = dagrun.RunQueued
		d.s.run.Generation++
	}
	return c.explore(d.s)
}

// every plays all histories of a graph for every set of outcomes.
func every(parents [][]int, crashes int, p plan) (Count, error) {
	g, err := dagrun.Compile(specOf(parents))
	if err != nil {
		return Count{}, err
	}
	var sum Count
	for bits := range 1 << len(parents) {
		c := &Case{parents: parents, fails: make([]bool, len(parents)), plan: p, graph: g, known: map[stored]int{}}
		for i := range c.fails {
			c.fails[i] = bits>>i&1 == 1
		}
		n, err := c.explore(stored{run: dagrun.RunRecord{State: dagrun.RunQueued, Generation: 1}, crashes: crashes})
		if err != nil {
			return sum, fmt.Errorf("parents %v, fails %v, %s:\n%w", parents, c.fails, p, err)
		}
		sum.Add(Count{Cases: 1, Histories: n, States: len(c.known)})
	}
	return sum, nil
}

// Crashes plays a graph with every set of outcomes, every order in which bodies end, and up to so many crashes at any
// commit.
func Crashes(parents [][]int, crashes int) (Count, error) {
	return every(parents, crashes, plan{})
}

// Controls plays a graph with every set of outcomes and every control at every point, in one order, with up to so many
// crashes at any commit.
func Controls(parents [][]int, crashes int) (Count, error) {
	var sum Count
	for _, p := range plans(len(parents)) {
		n, err := every(parents, crashes, p)
		if err != nil {
			return sum, err
		}
		sum.Add(n)
	}
	return sum, nil
}
