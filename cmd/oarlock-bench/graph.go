package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oarlock-dev/oarlock/sql"
)

var riverJoinedSQL = sql.Named("bench/river_joined")

const (
	fanRuns   = 2000
	fanWidth  = 8
	wideSteps = 10_000
	deepSteps = 10_000

	asChains = "oarlock, chains"
)

func fanCase() Case {
	return Case{
		Name: "fan", About: "2,000 runs of ten steps: one, then eight at once, then one that waits for all of them; beside chains of as many steps.",
		Bound:    "as chain",
		Settings: append(busySettings, riverSettings+"; a fan is inserted in the completing transaction, its end counts down in a row"),
		Prepare:  prepareFan,
		Goals: []Goal{
			{Side: ours, Metric: microsPerStep, Of: asChains, AtMost: 1.5, Guarded: true},
			{Side: ours, Metric: stepsPerSecond, Of: bare},
			{Side: ours, Metric: stepsPerSecond, Of: rival},
		},
	}
}

func prepareFan(ctx context.Context, s *Stage) ([]Side, error) {
	c := chains{runs: s.count(fanRuns, 10), steps: fanWidth + 2, metric: stepsPerSecond}
	sides, err := beside(ctx, s, c, c, fanOf(fanWidth))
	if err != nil {
		return nil, err
	}
	other, err := fans{c}.river(ctx, s)
	return append(sides, other), err
}

// beside has a graph, chains and the bare loop take turns.
func beside(ctx context.Context, s *Stage, graph, reference chains, source string) ([]Side, error) {
	d, err := s.database(ctx, source)
	if err != nil {
		return nil, err
	}
	own, err := graph.oarlockIn(ctx, s, d, ours, "graph")
	if err != nil {
		return nil, err
	}
	chain, err := reference.oarlock(ctx, s, asChains)
	if err != nil {
		return nil, err
	}
	limit, err := reference.bare(ctx, s, bare)
	return []Side{own, chain, limit}, err
}

func wideCase() Case {
	return Case{
		Name: "wide", About: "One run of 10,002 steps: one, then 10,000 at once, then one that waits for all of them; beside 2,000 chains of ten.",
		Bound:    "as chain; and one goroutine, which drives the run",
		Settings: append(busySettings, riverSettings+"; as fan"),
		Prepare:  prepareWide,
		Goals: []Goal{
			{Side: ours, Metric: microsPerStep, Of: asChains, AtMost: 1.5, Guarded: true},
			{Side: ours, Metric: stepsPerSecond, Of: bare},
			{Side: ours, Metric: stepsPerSecond, Of: rival},
		},
	}
}

func prepareWide(ctx context.Context, s *Stage) ([]Side, error) {
	width := s.count(wideSteps, 50)
	c := chains{1, width + 2, stepsPerSecond}
	sides, err := beside(ctx, s, c, chains{s.count(chainRuns, 20), chainSteps, stepsPerSecond}, fanOf(width))
	if err != nil {
		return nil, err
	}
	other, err := fans{c}.river(ctx, s)
	return append(sides, other), err
}

func deepCase() Case {
	return Case{
		Name: "deep", About: "One run of 10,000 steps one after the other; beside chains of ten, one at a time: from the start of a step to the start of the next.",
		Bound:    "as alone",
		Settings: append(defaultSettings, riverSettings+"; poll interval 1 ms, the least it takes"),
		Prepare:  prepareDeep,
		Goals: []Goal{
			{Side: ours, Metric: msMedian, Of: asChains, AtMost: 1.5, Guarded: true},
			{Side: ours, Metric: msP99, Of: asChains},
			{Side: ours, Metric: msMedian, Of: bare},
			{Side: ours, Metric: msMedian, Of: rival},
		},
	}
}

func prepareDeep(ctx context.Context, s *Stage) ([]Side, error) {
	deep := alone{1, s.count(deepSteps, 50)}
	own, err := deep.oarlock(ctx, s, ours)
	if err != nil {
		return nil, err
	}
	short, err := alone{s.count(aloneRuns, 5), chainSteps}.oarlock(ctx, s, asChains)
	if err != nil {
		return nil, err
	}
	limit, err := deep.bare(ctx, s)
	if err != nil {
		return nil, err
	}
	other, err := deep.river(ctx, s)
	return []Side{own, short, limit, other}, err
}

// fanOf is a DAG of a step, then width of them, then one.
func fanOf(width int) string {
	var b strings.Builder
	b.WriteString("name: graph\nsteps:\n  - {id: first, action: nothing}\n")
	names := make([]string, width)
	for i := range width {
		names[i] = fmt.Sprintf("s%d", i)
		fmt.Fprintf(&b, "  - {id: %s, action: nothing, depends: [first]}\n", names[i])
	}
	fmt.Fprintf(&b, "  - {id: last, action: nothing, depends: [%s]}\n", strings.Join(names, ", "))
	return b.String()
}

// fans are the same for River: its first job becomes the counter of those that are joined.
type fans struct{ chains }

// Steps of a fan, as River's jobs know them.
const (
	fanFirst = iota
	fanMiddle
	fanLast
)

func (f fans) river(ctx context.Context, s *Stage) (Side, error) {
	o := riverTuned
	o.pollOnly = true
	r, err := s.river(ctx, o)
	if err != nil {
		return Side{}, err
	}
	count := new(tally)
	r.work = func(ctx context.Context, client *river.Client[pgx.Tx], job *river.Job[riverArgs]) error {
		count.add()
		switch job.Args.Step {
		case fanFirst:
			return f.spread(ctx, client, r.pool, job)
		case fanMiddle:
			return f.join(ctx, client, r.pool, job)
		}
		return nil
	}
	return Side{Name: rival, Count: r.Database, Round: func(ctx context.Context) (sample Sample, err error) {
		err = r.during(ctx, func(client *river.Client[pgx.Tx]) error {
			took, err := r.burst(ctx, client, count, f.runs, f.steps)
			sample = f.sample(took)
			return err
		})
		return sample, err
	}}, nil
}

// spread inserts the middle of a fan. The counter is a job of its own that is never worked: completed jobs are of no size
// that could be counted on, and their rows are River's.
func (f fans) spread(ctx context.Context, client *river.Client[pgx.Tx], pool *pgxpool.Pool, job *river.Job[riverArgs]) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		counter, err := client.InsertTx(ctx, tx, riverArgs{}, &river.InsertOpts{
			Pending: true, Metadata: fmt.Appendf(nil, `{"left": %d}`, f.steps-2),
		})
		if err != nil {
			return err
		}
		middle := make([]river.InsertManyParams, f.steps-2)
		for i := range middle {
			middle[i].Args = riverArgs{Step: fanMiddle, Join: counter.Job.ID}
		}
		if _, err := client.InsertManyFastTx(ctx, tx, middle); err != nil {
			return err
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// join completes one of the middle; the last to do so inserts what waits for them.
func (f fans) join(ctx context.Context, client *river.Client[pgx.Tx], pool *pgxpool.Pool, job *river.Job[riverArgs]) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
			return err
		}
		var left int
		if err := tx.QueryRow(ctx, riverJoinedSQL, job.Args.Join).Scan(&left); err != nil || left > 0 {
			return err
		}
		_, err := client.InsertTx(ctx, tx, riverArgs{Step: fanLast}, nil)
		return err
	})
}

// perSecond is a rate of things that are neither steps nor runs.
func perSecond(what string, n int, took time.Duration) Values { return Values{what: rate(n, took)} }
