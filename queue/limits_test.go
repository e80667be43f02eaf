package queue_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// crowd makes sessions claim and give back at the same time, and audits after each claim.
type crowd struct {
	*sessionBundle
	audit string // counts the rows that the limit bounds
	give  string // gives one claim back
}

const crowdSize = 8

// work claims runs until every run was claimed, and returns the highest count that an audit saw.
func (c *crowd) work(t *testing.T, runs int) (most int) {
	t.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		ended int
	)
	for range crowdSize {
		s, conn := c.register(t), c.db.Conn(t)
		wg.Go(func() {
			for {
				mu.Lock()
				done := ended >= runs
				mu.Unlock()
				if done {
					return
				}
				p, err := s.Poll(t.Context(), queue.Want{Slots: 3, Free: 3})
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				if err := conn.QueryRow(t.Context(), c.audit).Scan(&n); err != nil {
					t.Error(err)
					return
				}
				for _, claim := range p.Claims {
					if _, err := conn.Exec(t.Context(), c.give, claim.ID); err != nil {
						t.Error(err)
						return
					}
				}
				mu.Lock()
				most, ended = max(most, n), ended+len(p.Claims)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return most
}

const finishClaim = `UPDATE oarlock.runs SET state = 'succeeded', claim_id = NULL, worker_id = NULL, finished_at = clock_timestamp() WHERE claim_id = $1`

func TestLimits_MaxRunningIsNeverExceeded(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.exec(t, "SELECT oarlock.set_queue('default', max_running => 4)")
	f.put(t, "name: urgent\npriority: 7\nsteps: [{id: a, run: \"true\"}]\n") // another lane behind the same limit
	f.ask(t, "plain", 100)
	f.ask(t, "urgent", 100)
	c := crowd{sessionBundle: f, audit: "SELECT count(*) FROM oarlock.runs WHERE worker_id IS NOT NULL", give: finishClaim}
	if most := c.work(t, 200); most > 4 || most < 2 {
		t.Errorf("%d were running at once, the limit is 4", most)
	}
	f.wantStates(t, "succeeded:200")
}

func TestLimits_MaxActiveRunsIsNeverExceeded(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: few\nmax_active_runs: 3\nsteps: [{id: a, run: \"true\"}]\n")
	f.ask(t, "few", 100)
	c := crowd{
		sessionBundle: f, give: finishClaim,
		audit: "SELECT count(*) FROM oarlock.runs WHERE worker_id IS NOT NULL OR started_at IS NOT NULL AND finished_at IS NULL",
	}
	if most := c.work(t, 100); most > 3 || most < 2 {
		t.Errorf("%d were active at once, the limit is 3", most)
	}
	f.wantStates(t, "succeeded:100")
}

func TestLimits_BothHoldAtOnce(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: few\nmax_active_runs: 2\nsteps: [{id: a, run: \"true\"}]\n")
	f.exec(t, "SELECT oarlock.set_queue('default', max_running => 3)")
	f.ask(t, "few", 5)
	f.ask(t, "plain", 5)
	s := f.register(t)
	p := poll(t, s, 10)
	byDAG := map[string]int{}
	for _, c := range p.Claims {
		byDAG[c.DAG]++
	}
	if len(p.Claims) != 3 || byDAG["few"] > 2 {
		t.Errorf("claimed %v", byDAG)
	}
	if p := poll(t, s, 10); len(p.Claims) > 0 || !p.Hungry {
		t.Errorf("claimed more: %v", p.Claims)
	}
}

func TestLimits_ABacklogWithoutLimitsDoesNotStarveThem(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: few\nmax_active_runs: 1\nsteps: [{id: a, run: \"true\"}]\n")
	f.ask(t, "few", 1)
	f.ask(t, "plain", 20)
	s := f.register(t)
	for n := 1; ; n++ {
		p := turn(t, s, 2)
		if len(p.Claims) != 2 {
			t.Fatalf("poll %d claimed %d", n, len(p.Claims))
		}
		if p.Claims[0].DAG == "few" || p.Claims[1].DAG == "few" {
			if n > 2 {
				t.Errorf("had to wait for %d polls", n)
			}
			return
		}
	}
}

func TestLimits_WhatIsPausedBehindALimitStays(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.exec(t, "SELECT oarlock.set_queue('default', max_running => 10)")
	f.put(t, "name: other\nsteps: [{id: a, run: \"true\"}]\n")
	f.ask(t, "plain", 2)
	f.ask(t, "other", 2)
	s := f.register(t)
	poll(t, s, 0)
	f.exec(t, "SELECT oarlock.set_dag('plain', paused => true)")
	if p := poll(t, s, 10); len(p.Claims) != 2 || p.Claims[0].DAG != "other" {
		t.Errorf("claimed %v", runsOf(p.Claims))
	}
	f.exec(t, "SELECT oarlock.set_queue('default', paused => true)")
	f.exec(t, "SELECT oarlock.set_dag('plain', paused => false)")
	if p := poll(t, s, 10); len(p.Claims) > 0 {
		t.Errorf("claimed %v", runsOf(p.Claims))
	}
}

// Runs for later cost nothing now, however many they are.
func TestLimits_LaterRunsCostNothing(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.exec(t, "SELECT oarlock.set_queue('default', max_running => 5)")
	s := calm(t, f.register(t))
	cost := func() int {
		t.Helper()
		n := 0
		err := s.OnClaims(t.Context(), func(_ context.Context, conn *pgx.Conn) error {
			statement, args := s.LimitedStatement(queue.Want{Slots: 5, Free: 5})
			n = explain(t, conn, statement, args).Buffers()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 3 { // the first call plans its statements
		cost()
	}
	before := cost()
	f.exec(t, "SELECT oarlock.enqueue_many('plain', array_fill('{}'::jsonb, ARRAY[5000]), run_at => now() + interval '1 day')")
	if after := cost(); after > before+20 {
		t.Errorf("with 5,000 runs for tomorrow a claim of nothing reads %d buffers, and %d without", after, before)
	}
}

// A claim that finds a limit full does not lock the limit's row, because other transactions may be about to end a run behind it.
func TestLimits_FullOnesAreNotLocked(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: few\nmax_active_runs: 1\nsteps: [{id: a, run: \"true\"}]\n")
	f.ask(t, "few", 3)
	s := f.register(t)
	if p := poll(t, s, 3); len(p.Claims) != 1 {
		t.Fatalf("claimed %v", runsOf(p.Claims))
	}
	tx := f.opened(t, "SELECT FROM oarlock.dags")
	statement, args := s.LimitedStatement(queue.Want{Slots: 3, Free: 3})
	if _, err := tx.Exec(t.Context(), statement, args); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, f.clientBundle, "WITH free AS (SELECT d.dag_id FROM oarlock.dags d FOR NO KEY UPDATE SKIP LOCKED) SELECT count(*) FROM free"); n != value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.dags") {
		t.Errorf("%d rows of DAGs are free", n)
	}
}

// A run that has begun goes on, even if the clock has changed since it came back.
func TestLimits_WhatHasBegunWaitsForNoClock(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 10} {
		f := newSessionBundle(t)
		f.exec(t, "SELECT oarlock.set_queue('default', max_running => $1)", limit)
		f.ask(t, "plain", 3)
		f.exec(t, "UPDATE oarlock.runs SET ready_at = now() + interval '1 hour'")
		f.exec(t, "UPDATE oarlock.runs SET stage = run_id - 1, started_at = now(), epoch = 1 WHERE run_id < 3")
		if p := poll(t, f.register(t), 10); len(p.Claims) != 2 || p.Claims[0].Run != 1 {
			t.Errorf("with limit %d claimed %v, want 1 and 2", limit, runsOf(p.Claims))
		}
	}
}

// If limits are full, polls look behind them only once per look, because that takes as long as there are limits.
func TestLimits_VainClaimsAreNotRepeated(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: few\nmax_active_runs: 1\nsteps: [{id: a, run: \"true\"}]\n")
	f.ask(t, "few", 3)
	store, sent := f.counted(t)
	s := f.registerAt(t, store)
	look(t, s)
	statements := func() int64 {
		t.Helper()
		sent.n.Store(0)
		poll(t, s, 5)
		return sent.n.Load()
	}
	first := poll(t, s, 1).Claims[0]
	poll(t, s, 5)
	if n := statements(); n != 1 {
		t.Errorf("a poll after one in vain sends %d statements", n)
	}
	look(t, s)
	if n := statements(); n != 2 { // before what is behind no limit, since nothing else is due
		t.Errorf("a poll after a look sends %d statements", n)
	}
	if err := s.Release(t.Context(), first, false, 0); err != nil {
		t.Fatal(err)
	}
	if p := poll(t, s, 5); len(p.Claims) != 1 || !p.Claims[0].Limited {
		t.Errorf("once a run behind the limit is given back, a poll claims %v", runsOf(p.Claims))
	}
}
