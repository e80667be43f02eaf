package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/cmd/oarlock-bench/baseline"
	"github.com/oarlock-dev/oarlock/dagrun"
)

// bareRow is a record of the bare loop that the journal is measured against.
func bareRow(c *Claim, step int, seq int64) baseline.Row {
	return baseline.Row{Run: int64(c.Run), Claim: c.ID, Step: step, State: dagrun.TaskRunning.String(), Seq: seq}
}

// BenchmarkFlush is one flush of n records of n runs, beside the bare statement for the same.
func BenchmarkFlush(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			y := newJournalBundle(b)
			conn := y.own()
			loop := baseline.For(conn, y.worker)
			claims := y.claims(n)
			parts, rows := make([]*flushPart, n), make([]baseline.Row, n)
			var journal, bare time.Duration
			seq := int64(0)
			for b.Loop() {
				seq += 2
				for i, c := range claims {
					parts[i] = newPendingCommit(batch(c, taskAt(0, seq, dagrun.TaskRunning)), y.held.of(c)).whole()
					rows[i] = bareRow(c, 1, seq)
				}
				start := time.Now()
				y.must(y.journal.prepare(b.Context(), conn))
				y.flush.fill(parts)
				must(y.journal.exec(b.Context(), conn))
				journal += time.Since(start)
				start = time.Now()
				y.must(loop.Flush(b.Context(), rows))
				bare += time.Since(start)
			}
			report(b, n*b.N, journal, bare)
		})
	}
}

// ownersOwn is a connection like the journal's for the bare loop, which makes its runs by itself, as no worker may.
func (y *journalBundle) ownersOwn() *pgx.Conn {
	config := y.journal.conn.config.Copy()
	owner := y.conn.Config()
	config.User, config.Password = owner.User, owner.Password
	conn, err := pgx.ConnectConfig(y.tb.Context(), config)
	y.must(err)
	y.tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func report(b *testing.B, records int, journal, bare time.Duration) {
	b.ReportMetric(float64(journal.Microseconds())/float64(records), "journal-us/record")
	b.ReportMetric(float64(bare.Microseconds())/float64(records), "bare-us/record")
	b.ReportMetric(float64(bare)/float64(journal), "of-bare")
}

const (
	chainRuns  = 2000
	chainSteps = 10
)

// BenchmarkChains drives chains of ten steps with a start and an end record per step. The bodies of the steps end at once. It
// drives them through core and journal, and through the bare loop. A dependent step starts only after the commit of the step
// before.
func BenchmarkChains(b *testing.B) {
	var spec dagrun.Spec
	for i := range chainSteps {
		step := dagrun.Step{Name: fmt.Sprintf("s%d", i)}
		if i > 0 {
			step.Depends = []dagrun.Edge{{Step: fmt.Sprintf("s%d", i-1)}}
		}
		spec.Steps = append(spec.Steps, step)
	}
	graph, err := dagrun.Compile(spec)
	if err != nil {
		b.Fatal(err)
	}
	for _, runs := range []int{1, chainRuns} {
		b.Run(fmt.Sprint(runs), func(b *testing.B) {
			y := newJournalBundle(b)
			loop := baseline.For(y.ownersOwn(), y.worker)
			var journal, bare time.Duration
			for b.Loop() {
				claims := y.claims(runs)
				start := time.Now()
				y.driveAll(graph, claims)
				journal += time.Since(start)
				took, err := loop.Chains(b.Context(), runs, chainSteps)
				y.must(err)
				bare += took
			}
			report(b, runs*chainSteps*b.N, journal, bare)
			b.ReportMetric(float64(runs*chainSteps*b.N)/journal.Seconds(), "steps/s")
		})
	}
}

func (y *journalBundle) driveAll(graph *dagrun.Graph, claims []*Claim) {
	done := make(chan error, len(claims))
	for _, c := range claims {
		go func() { done <- y.drive(graph, c) }()
	}
	for range claims {
		y.must(<-done)
	}
}

// drive is the loop of package dagrun's documentation; each start and each end of a step has a commit of its own.
func (y *journalBundle) drive(graph *dagrun.Graph, c *Claim) error {
	run := dagrun.New(graph, dagrun.Options{})
	var now dagrun.Time = 1000
	step := func(e dagrun.Event) error {
		now++
		e.At = now
		return run.Step(e)
	}
	if err := step(dagrun.Event{Kind: dagrun.EvBegin}); err != nil {
		return err
	}
	var bodies []dagrun.Action
	for !run.Over() {
		ready, ok := run.Ready()
		for _, w := range ready.Wants {
			if err := step(dagrun.Event{Kind: dagrun.EvGranted, Task: w.Task}); err != nil {
				return err
			}
		}
		if len(ready.Wants) > 0 {
			ready, ok = run.Ready()
		}
		if ok {
			if err := y.commit(context.Background(), &Batch{Claim: c, Records: ready.Records, Leave: ready.Leave, Result: ready.Result}); err != nil {
				return err
			}
			bodies = append(bodies[:0], ready.Actions...)
			run.Advance()
		}
		for _, a := range bodies {
			if err := step(dagrun.Event{Kind: dagrun.EvFinished, Task: a.Task, Attempt: a.Attempt, Result: &dagrun.Result{}}); err != nil {
				return err
			}
		}
		bodies = bodies[:0]
	}
	return nil
}
