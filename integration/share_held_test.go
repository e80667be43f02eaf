package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// longestHold is how long at most a writer keeps its transaction open after it made a run.
const longestHold = 300 * time.Millisecond

// committed are runs by the moment at which their commit was acknowledged.
type committed struct {
	mu   sync.Mutex
	runs map[queue.RunID]time.Time
}

// askAndHold makes a run in a transaction of its own, and commits it once held returns.
func (c *committed) askAndHold(ctx context.Context, conn *pgx.Conn, r queue.Request, held func()) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	run, err := queue.EnqueueTx(ctx, tx, r)
	if err != nil {
		return err
	}
	held()
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[queue.RunID]time.Time{}
	}
	if _, known := c.runs[run]; !known { // else another writer's commit was first
		c.runs[run] = time.Now()
	}
	return nil
}

// waits returns how long the runs waited after their commits, sorted. Server and test read the same clock.
func (c *committed) waits(t *testing.T, b *testBundle) []time.Duration {
	t.Helper()
	var waits []time.Duration
	for run, at := range c.runs {
		b.untilOver(t, run)
		r, err := b.Get(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, max(0, r.StartedAt.Sub(at)))
	}
	slices.Sort(waits)
	t.Logf("measured %d runs: median %v, p99 %v, max %v after their commits", len(waits), waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
	return waits
}

// atOncePlease fails, if figures are judged, when one run in ten waited as long as a run of which no worker was notified.
func atOncePlease(t *testing.T, waits []time.Duration) {
	t.Helper()
	if late := waits[len(waits)*9/10]; late >= queue.LookInterval/2 && judgesFigures() {
		t.Errorf("one run in ten waits %v after its commit for a worker with room", late)
	}
}

func holdAWhile() {
	pause := time.NewTimer(rand.N(longestHold))
	<-pause.C
}

// Runs that several writers make start at their commits, however long the transactions are open. No cursor passes an open
// transaction, whatever commits meanwhile. An older transaction beside them changes nothing.
func TestShare_RunsStartAtTheirCommits(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]func(t *testing.T, b *testBundle){
		"alone": func(*testing.T, *testBundle) {},
		"beside a writer that stays open": func(t *testing.T, b *testBundle) {
			t.Helper()
			tx, err := b.db.Conn(t).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := queue.EnqueueTx(t.Context(), tx, queue.Request{DAG: "quick"}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, "name: quick\nsteps: [{id: a, action: noop}]\n")
			b.worker(t, "idle", "slots=32")
			b.hungry(t, 1)
			beside(t, b)
			var all committed
			var writers sync.WaitGroup
			for writer := range 8 {
				conn := b.db.Conn(t)
				writers.Go(func() {
					for i := range *shareTrials * 5 {
						r := queue.Request{DAG: "quick"}
						if i%5 == 4 { // if writers want the same key, all but one wait for its transaction
							r.Key = fmt.Sprint("shared ", i, " ", writer/2)
						}
						if err := all.askAndHold(t.Context(), conn, r, holdAWhile); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			writers.Wait()
			atOncePlease(t, all.waits(t, b))
		})
	}
}

// A worker that gets a free slot between a statement and its commit is not notified of the run: the statement found no
// hungry worker.
func TestShare_AWorkerThatGetsRoomBeforeACommitFindsTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, staying)
	b.put(t, "name: quick\nqueue: four\nsteps: [{id: a, action: noop}]\n")
	b.worker(t, "only", "slots=1", "$DIR="+b.dir)
	conn := b.db.Conn(t)
	var all committed
	for range *shareTrials * 3 {
		b.hungry(t, 1)
		b.enqueue(t, "held", nil)
		b.underWay(t, 1)
		b.hungry(t, 0)
		err := all.askAndHold(t.Context(), conn, queue.Request{DAG: "quick"}, func() {
			b.end(t) // the uncommitted run does not count
			b.hungry(t, 1)
			holdAWhile()
		})
		if err != nil {
			t.Fatal(err)
		}
		for run := range all.runs {
			b.untilOver(t, run)
		}
	}
	atOncePlease(t, all.waits(t, b))
}
