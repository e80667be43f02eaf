package traffic

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Options are the bounds of a plan.
type Options struct {
	Runs      int           // how many runs to enqueue, about
	Over      time.Duration // when the last of them is enqueued
	LongTicks int           // ticks of a task that outlives a lease
}

// Way is how a run is enqueued.
type Way string

// Ways to enqueue a run.
const (
	Plain  Way = "plain"  // with a call
	Keyed  Way = "keyed"  // by several clients at once, with one key
	Held   Way = "held"   // in a transaction that stays open for a while
	Undone Way = "undone" // in a transaction that is rolled back
)

// Ask is one run to enqueue.
type Ask struct {
	DAG    *DAG
	Way    Way
	At     time.Duration
	Hold   time.Duration // of Held and Undone
	Key    string        // of Keyed and Undone
	Limit  bool          // in the queue that limits its runs
	N      int           // the param n, by which keyedDAG limits its runs
	Demand []Demand
}

// Verb is a request to a run.
type Verb string

// Verbs of a Demand. Rest is a pause and, after a while, a resume.
const (
	Cancel Verb = "cancel"
	Rest   Verb = "rest"
	Again  Verb = "again"  // retry, once the run is over
	Repeat Verb = "repeat" // retry of a step that has failed, while the run is under way
)

// Demand is a request to make.
type Demand struct {
	Verb  Verb
	After time.Duration // since the run was accepted; for Again: since it was over
	For   time.Duration // of Rest
	Now   bool          // of Cancel
	All   bool          // of Again: retry everything, not only what failed
}

// Plan is the traffic of one seed.
type Plan struct {
	DAGs []*DAG
	Asks []Ask
	Rush *DAG // enqueued RushRuns times at once when the faults are over
}

// RushRuns is the number of runs in a rush: more than the slots of one worker, fewer than the slots of three.
const RushRuns = 10

const dagsPerPlan = 5

// limitedDAG is the DAG that limits its runs, and limitOfRuns its limit.
const (
	limitedDAG  = "d4"
	limitOfRuns = 2
)

// keyedDAG is the DAG that limits its runs by key, limitOfKey its limit, and keysPerPlan the number of keys.
const (
	keyedDAG    = "d3"
	limitOfKey  = 1
	keysPerPlan = 3
)

// New draws a plan. The same generator in the same state draws the same plan.
func New(r *rand.Rand, options Options) *Plan {
	p := &Plan{DAGs: []*DAG{child(options)}}
	for i := range dagsPerPlan {
		p.DAGs = append(p.DAGs, newDAG(r, fmt.Sprintf("d%d", i), options))
	}
	p.Rush = rush(options)
	p.DAGs = append(p.DAGs, p.Rush)
	for i := range options.Runs {
		p.Asks = append(p.Asks, p.newAsk(r, i, options))
	}
	return p
}

// ByKey returns the limit of a DAG for runs with the same param n, 0 if it has none.
func (p *Plan) ByKey(dag string) int {
	for _, d := range p.DAGs {
		if d.Name == dag {
			return d.ByKey
		}
	}
	return 0
}

func (p *Plan) newAsk(r *rand.Rand, i int, options Options) Ask {
	a := Ask{
		DAG: p.DAGs[1+r.IntN(dagsPerPlan)], Way: Plain, Limit: r.IntN(4) == 0, N: i % keysPerPlan,
		At: between(r, 0, options.Over), Hold: between(r, 100*time.Millisecond, options.Over/4),
	}
	switch n := r.IntN(10); {
	case n < 3:
		a.Way, a.Key = Keyed, fmt.Sprintf("key%d", i)
	case n < 5:
		a.Way = Held
	case n < 6:
		a.Way, a.Key = Undone, fmt.Sprintf("undone%d", i)
	}
	a.Demand = demands(r, options)
	return a
}

func demands(r *rand.Rand, options Options) []Demand {
	switch n := r.IntN(20); {
	case n < 4:
		return []Demand{{Verb: Cancel, After: between(r, 0, options.Over/2), Now: r.IntN(3) == 0}}
	case n < 7:
		return []Demand{{Verb: Rest, After: between(r, 0, options.Over/3), For: between(r, 100*time.Millisecond, options.Over/4)}}
	case n < 9:
		return []Demand{{Verb: Again, After: between(r, 0, time.Second), All: r.IntN(2) == 0}}
	case n < 10:
		return []Demand{
			{Verb: Rest, After: between(r, 0, options.Over/4), For: between(r, 100*time.Millisecond, options.Over/4)},
			{Verb: Cancel, After: between(r, 0, options.Over/2)},
		}
	case n < 13:
		return []Demand{{Verb: Repeat, After: between(r, 0, options.Over/4)}}
	}
	return nil
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(r.Int64N(int64(high-low)))
}
