package traffic

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Pool is a pool that must be there before the DAGs of a plan are put.
type Pool struct {
	Name  string
	Slots int
	ByN   bool // Slots are for each value of the param n
}

// Use is what a body takes of a pool while it runs.
type Use struct {
	*Pool

	Weight int
}

// The pools of each plan. They are so small that bodies wait for them all the time.
var (
	pair   = &Pool{Name: "pair", Slots: 2}
	byN    = &Pool{Name: "by-n", Slots: 1, ByN: true}
	single = &Pool{Name: "single", Slots: 1}
)

// Pools returns the pools of each plan.
func Pools() []*Pool { return []*Pool{pair, byN, single} }

// pooledDAGs are the DAGs with steps that name pools. The other DAGs show that a pool holds up no step but its own.
var pooledDAGs = []string{"d0", "d1", "d2"}

// drawPools draws the pools of a step. Only bodies that write down when they begin and end can be judged, so other steps get none.
func (s *Step) drawPools(r *rand.Rand) {
	if !s.Kind.Shell() {
		return
	}
	switch r.IntN(6) {
	case 0:
	case 1:
		s.Pools = []Use{{pair, 2}}
	case 2:
		s.Pools = []Use{{byN, 1}}
	case 3:
		s.Pools = []Use{{pair, 1}, {byN, 1}}
	default:
		s.Pools = []Use{{pair, 1}}
	}
	if publishes := s.Kind == Quick || s.Kind == Steady || s.Kind == Flaky; publishes && r.IntN(3) == 0 {
		s.Publish = []Use{{single, 1}}
	}
}

// list returns uses as a list in a file.
func list(uses []Use) string {
	items := make([]string, len(uses))
	for i, u := range uses {
		items[i] = fmt.Sprintf("{name: %s, weight: %d}", u.Name, u.Weight)
		if u.ByN {
			items[i] = fmt.Sprintf("{name: %s, weight: %d, key: '${params.n}'}", u.Name, u.Weight)
		}
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// Takes returns what a body of the DAG takes of pools, or the publish of the step.
func (d *DAG) Takes(step string, publish bool) []Use {
	for i := range d.Steps {
		if s := &d.Steps[i]; s.ID == step && publish {
			return s.Publish
		} else if s.ID == step {
			return s.Pools
		}
	}
	return nil // a handler
}
