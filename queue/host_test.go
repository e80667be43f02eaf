package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// inOpen runs a statement as a submitter in a transaction that stays open.
func (f *sessionBundle) inOpen(tb testing.TB, as, statement string, args ...any) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), as)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := tx.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatal(err)
	}
}

// A submitter that retries its run and leaves its transaction open must not hold up others.
func TestHost_AnOpenRetryHoldsUpNeitherLookNorPoll(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	app := f.user(t, "app", "oarlock_submit")
	mine := f.open(t, app)
	old, err := mine.Enqueue(t.Context(), queue.Request{DAG: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	f.end(t, old, "failed")
	parked := f.ask(t, "plain", 1)[0]
	f.exec(t, "UPDATE oarlock.runs SET state='waiting', epoch=1, wake_at = clock_timestamp() - interval '1 s' WHERE run_id=$1", parked)
	s := f.register(t)
	f.inOpen(t, app, "SELECT oarlock.retry($1)", old)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.Look(ctx, queue.Load{}); err != nil {
		t.Errorf("a look: %v", err)
	}
	if n, err := s.DoChores(ctx); n != 1 || err != nil {
		t.Errorf("chores queue %d, %v", n, err)
	}
	if p, err := s.Poll(ctx, queue.Want{Slots: 10, Free: 10}); err != nil || len(p.Claims) != 1 {
		t.Errorf("claimed %v, %v", runsOf(p.Claims), err)
	}
}

func TestHost_AnOpenRetryHoldsUpNoTakeover(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	app := f.user(t, "app", "oarlock_submit")
	mine := f.open(t, app)
	old, err := mine.Enqueue(t.Context(), queue.Request{DAG: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	f.end(t, old, "failed")
	dead := f.register(t)
	f.ask(t, "plain", 3)
	if n := len(poll(t, dead, 10).Claims); n != 3 {
		t.Fatal(n)
	}
	f.inOpen(t, app, "SELECT oarlock.retry($1)", old)
	began := time.Now()
	w := describe()
	w.Replaces = append(w.Replaces, dead.ID())
	s, err := f.worker.Register(t.Context(), w)
	if err != nil {
		t.Errorf("a replacement took %v: %v; runs %s", time.Since(began), err, f.states(t))
		return
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	f.wantStates(t, "failed:1 queued:3")
}

// A submitter that cancels its run and leaves its transaction open must not hold up the runs of others.
func TestHost_AnOpenCancelHoldsUpNobodysCommit(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	app := f.user(t, "app", "oarlock_submit")
	mine := f.open(t, app)
	s := f.register(t)
	his, err := mine.Enqueue(t.Context(), queue.Request{DAG: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	other := f.ask(t, "plain", 1)[0]
	claims := map[queue.RunID]*queue.Claim{}
	for _, c := range poll(t, s, 10).Claims {
		claims[c.Run] = c
	}
	f.inOpen(t, app, "SELECT oarlock.cancel($1)", his)
	go func() { _ = s.Release(context.Background(), claims[his], false, 0) }()
	for end := time.Now().Add(time.Minute); !value[bool](t, f.clientBundle, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"); {
		if time.Now().After(end) {
			t.Fatal("the release does not wait for the host")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Release(ctx, claims[other], false, 0) }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("another run's commit: %v", err)
		}
	case <-time.After(4 * time.Second):
		t.Error("another run's commit waits for a host's open transaction")
	}
}

func TestHost_ControlsOfARunAreBounded(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	app := f.user(t, "app", "oarlock_submit")
	mine := f.open(t, app)
	run, err := mine.Enqueue(t.Context(), queue.Request{DAG: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), `SELECT oarlock.mark($1, 'a', 'succeeded', outputs => jsonb_build_object('x', repeat('y', 1000000))) FROM generate_series(1, 200)`, run)
	s := f.register(t)
	t.Log(err, value[string](t, f.clientBundle, "SELECT count(*) || ' controls, ' || coalesce(sum(octet_length(args::text)), 0) || ' bytes' FROM oarlock.controls WHERE decided_at IS NULL"))
	claims := poll(t, s, 1).Claims
	loaded, lerr := s.Load(t.Context(), claims)
	if lerr != nil {
		t.Fatal(lerr)
	}
	size := 0
	for _, c := range loaded[0].Mailbox.Controls {
		size += len(c.Args)
	}
	if size > 64<<20 {
		t.Errorf("a submitter had a worker load %d MiB of %d controls", size>>20, len(loaded[0].Mailbox.Controls))
	}
}

const foursDAG = "name: fours\nsteps: [{id: ok, action: approval, with: {prompt: sure, approvers: [boss]}}, {id: go, run: \"true\", depends: [ok]}]\n"

func TestHost_ASubmitterCannotMarkAnApprovalThatNamesOthers(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, foursDAG)
	app := f.user(t, "app", "oarlock_submit")
	mine := f.open(t, app)
	run, err := mine.Enqueue(t.Context(), queue.Request{DAG: "fours"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), `SELECT oarlock.approve($1, 'ok')`, run)
	t.Log("approve:", err)
	if _, err = conn.Exec(t.Context(), `SELECT oarlock.mark($1, 'ok', 'succeeded')`, run); err == nil {
		t.Error("a submitter who may not approve marked the approval succeeded")
	}
}

func TestHost_AnOldVersionIsNoWayAroundMaxActiveRuns(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: one\nsteps: [{id: a, run: \"true\"}]\n")
	f.put(t, "name: one\nmax_active_runs: 1\nsteps: [{id: a, run: \"true\"}]\n")
	for range 3 {
		if _, err := f.store.Enqueue(t.Context(), queue.Request{DAG: "one", Version: 1}); err != nil {
			t.Fatal(err)
		}
	}
	s := f.register(t)
	n := 0
	for range 4 {
		n += len(poll(t, s, 10).Claims)
	}
	if n != 1 {
		t.Errorf("%d active runs, at most 1", n)
	}
}

// A transaction that sets a limit does not see the runs of a transaction that is still open.
func TestHost_RunsCommittedAfterALimitObeyIt(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: one\nsteps: [{id: a, run: \"true\"}]\n")
	s := f.register(t)
	poll(t, s, 1)
	tx, err := f.db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT oarlock.enqueue('one') FROM generate_series(1, 5)"); err != nil {
		t.Fatal(err)
	}
	f.put(t, "name: one\nmax_active_runs: 1\nsteps: [{id: a, run: \"true\"}]\n")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.ask(t, "plain", 3) // behind them in the lane that they share
	byName := map[string]int{}
	for range 6 {
		for _, c := range turn(t, s, 10).Claims {
			if c.DAG == "one" && byName["one"] > 0 {
				t.Fatalf("claimed %d while another is active", c.Run)
			}
			byName[c.DAG]++
		}
	}
	if byName["one"] != 1 || byName["plain"] != 3 {
		t.Errorf("claimed %v", byName)
	}
}

// A host that makes the lane into which workers put runs aside, and leaves its transaction open, must not hold up others.
func TestHost_AnOpenLaneHoldsUpNeitherPollNorLook(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, "name: one\npriority: 3\nsteps: [{id: a, run: \"true\"}]\n")
	f.ask(t, "one", 2)
	f.put(t, "name: one\nmax_active_runs: 1\nsteps: [{id: a, run: \"true\"}]\n")
	f.ask(t, "plain", 1)
	s := f.register(t)
	f.inOpen(t, f.db.URL, "SELECT oarlock.enqueue('one', version => 1)")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	p, err := s.Poll(ctx, queue.Want{Slots: 10, Free: 10})
	if err != nil || len(p.Claims) != 1 || p.Claims[0].DAG != "plain" || ctx.Err() != nil {
		t.Errorf("claimed %v, %v, %v", p.Claims, err, ctx.Err())
	}
	if _, err := s.Look(ctx, queue.Load{}); err != nil {
		t.Errorf("a look: %v", err)
	}
}

func TestHost_ALimitedLaneHasCursorsToo(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.exec(t, "SELECT oarlock.set_queue('default', max_running => 1000)")
	f.ask(t, "plain", 20100)
	f.exec(t, "UPDATE oarlock.runs SET ready_at = run_at - interval '1 hour' + run_id * interval '1 millisecond'") // not of one call
	f.exec(t, "VACUUM oarlock.runs")
	s := f.register(t)
	old, err := f.db.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(context.Background()) }()
	if _, err := old.Exec(t.Context(), "SELECT FROM oarlock.runs LIMIT 1"); err != nil {
		t.Fatal(err)
	}
	f.exec(t, `UPDATE oarlock.runs SET state = 'succeeded', finished_at = clock_timestamp() WHERE run_id = ANY (ARRAY(
		SELECT run_id FROM oarlock.runs WHERE state = 'queued' ORDER BY ready_at, run_id LIMIT 20000))`)
	calm(t, s)
	t.Log("claimed", len(poll(t, s, 5).Claims), len(poll(t, s, 5).Claims))
	statement, args := s.LimitedStatement(queue.Want{Slots: 5, Free: 5})
	err = s.OnClaims(t.Context(), func(_ context.Context, conn *pgx.Conn) error {
		if n := explain(t, conn, statement, args).Buffers(); n > 300 {
			t.Errorf("a poll of one limited lane reads %d buffers", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An administrator drains in a transaction that stays open: the worker's own row must not be held meanwhile.
func TestHost_DrainingAWorkerDoesNotHoldUpItsRenewals(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	admin, err := pgx.Connect(t.Context(), f.user(t, "boss", "oarlock_admin"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(t.Context()))
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var asked int
		if err := tx.QueryRow(t.Context(), "SELECT oarlock.drain_worker($1)", s.ID().String()).Scan(&asked); err != nil || asked != 1 {
			t.Fatalf("asked %d workers, %v", asked, err)
		}
	}
	for want := range 3 {
		if r, err := s.Renew(t.Context(), queue.Vitals{}); err != nil || r.Desired != queue.WorkerLive {
			t.Errorf("renewal %+v, %v", r, err)
		}
		poll(t, s, want) // writes how hungry the worker is
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Renew(t.Context(), queue.Vitals{}); err != nil || r.Desired != queue.WorkerDraining {
		t.Errorf("renewal %+v, %v", r, err)
	}
}
