package integration

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	everyLane   = 1000
	manyKeyed   = 24 // child runs that wait for one key: more than the worker's pool has connections
	neighbourly = `
name: plain
steps: [{id: a, action: noop}]
---
name: urgent
priority: 50
steps: [{id: a, action: noop}]
---
name: timer
steps: [{id: a, action: wait, with: {duration: 10ms}}]
---
name: parent
steps: [{id: a, action: dag.run, with: {dag: plain}}]
---
name: relay
steps:
  - {id: a, run: '. $DIR/lib; hold go'}
  - {id: b, depends: [a], run: 'true'}
---
name: keyed
steps: [{id: a, action: dag.enqueue, with: {dag: plain, run_key: k}}]
`
)

// neighbours enqueues runs of every kind, and returns how long each took to end, sorted.
func (b *testBundle) neighbours(t *testing.T) []time.Duration {
	t.Helper()
	var runs []queue.RunID
	for range *shareTrials * 5 {
		for _, dag := range []string{"plain", "urgent", "timer", "parent"} {
			runs = append(runs, b.enqueue(t, dag, nil))
		}
	}
	took := make([]time.Duration, len(runs))
	for i, run := range runs {
		b.untilOver(t, run)
		r, err := b.Get(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		took[i] = r.FinishedAt.Sub(r.CreatedAt)
	}
	slices.Sort(took)
	t.Logf("measured %d runs: median %v, p99 %v, max %v", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	return took
}

// asFast fails, if figures are judged, when runs beside an open transaction took twice as long as without one.
func asFast(t *testing.T, beside, without []time.Duration) {
	t.Helper()
	if p99, quiet := beside[len(beside)*99/100], without[len(without)*99/100]; judgesFigures() && p99 > 2*quiet {
		t.Errorf("p99 beside the transaction is %v, %v without", p99, quiet)
	}
}

// putNeighbours puts the graphs of all kinds of runs.
func (b *testBundle) putNeighbours(t *testing.T) {
	t.Helper()
	for source := range strings.SplitSeq(neighbourly, "---\n") {
		b.put(t, source)
	}
}

// An application keeps a transaction open in which it retried runs. All other work goes on meanwhile: plain runs, timers,
// parents of children, a worker that is stopped, and the runs of a lost worker.
func TestShare_WhatComesBackUncommittedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for name, lanes := range map[string]int{"in one lane": 1, "in all lanes": everyLane} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.putNeighbours(t)
			leaves := b.worker(t, "leaves", append(short, "slots=1", "$DIR="+b.dir)...)
			handed := b.enqueue(t, "relay", nil)
			b.underWay(t, 1)
			dies := b.worker(t, "dies", append(short, "slots=1", "$DIR="+b.dir)...)
			lost := b.enqueue(t, "relay", nil)
			b.underWay(t, 2)
			_, pid := b.driver(t, "dies")
			b.worker(t, "stays", append(short, "slots=8", "$DIR="+b.dir)...)
			b.neighbours(t) // the first runs of a worker take longer
			quiet := b.neighbours(t)

			app, err := b.db.Conn(t).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = app.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := app.Exec(t.Context(), "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
			var came int
			if err := app.QueryRow(t.Context(), chaosStatement("come_back"), lanes).Scan(&came); err != nil || came == 0 {
				t.Fatal(came, err)
			}
			asFast(t, b.neighbours(t), quiet)
			killAll(t, dies.Process.Pid, pid)
			signal(t, syscall.SIGTERM, leaves.Process.Pid)
			b.write(t, "go", "")
			for _, run := range []queue.RunID{handed, lost} {
				if got, want := b.await(t, run), "succeeded a=succeeded b=succeeded"; got != want {
					t.Errorf("run %d is %s, want %s", run, got, want)
				}
			}
			if code := leaves.exit(t); code != 0 {
				t.Errorf("the worker that was stopped ended with %d", code)
			}
			asFast(t, b.neighbours(t), quiet)
			if err := app.Commit(t.Context()); err != nil {
				t.Errorf("the transaction did not stay open: %v", err)
			}
		})
	}
}

// Steps that ask for a run by a key wait for the application that has used the key and does not commit. Nothing else
// waits for it.
func TestShare_AKeyThatIsTakenUncommittedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putNeighbours(t)
	b.worker(t, "w", "slots=64", "$DIR="+b.dir)
	b.neighbours(t)
	quiet := b.neighbours(t)
	app, err := b.db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.Rollback(context.WithoutCancel(t.Context())) }()
	key, err := queue.EnqueueTx(t.Context(), app, queue.Request{DAG: "plain", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	var keyed []queue.RunID
	for range manyKeyed {
		keyed = append(keyed, b.enqueue(t, "keyed", nil))
	}
	b.underWay(t, manyKeyed)
	asFast(t, b.neighbours(t), quiet)
	b.underWay(t, manyKeyed)
	if err := app.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, run := range keyed {
		if got, want := b.await(t, run), "succeeded a=succeeded"; got != want {
			t.Errorf("run %d is %s, want %s", run, got, want)
		}
	}
	if got, want := b.await(t, key), "succeeded a=succeeded"; got != want {
		t.Errorf("the run that has the key is %s, want %s", got, want)
	}
}
