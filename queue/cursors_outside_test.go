package queue_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// Runs can appear below where polls begin in many ways. The next sweep finds them in each.
func TestCursors_SweepsFindWhatIsBelow(t *testing.T) {
	t.Parallel()
	commits := func(statements ...string) func(*testing.T, *sessionBundle) func() {
		return func(t *testing.T, f *sessionBundle) func() {
			return ends(t, f.opened(t, statements...).Commit)
		}
	}
	for name, late := range map[string]func(*testing.T, *sessionBundle) (appear func()){
		"a transaction that was open for long": commits("SELECT oarlock.enqueue('plain')"),
		"in a savepoint":                       commits("SAVEPOINT a", "SELECT oarlock.enqueue('plain')", "RELEASE a"),
		"several retries":                      retries,
		"a call that waited for its lane":      waitsForLane,
		"runs that were locked":                locks,
	} {
		for _, limit := range []int{0, 1000} {
			t.Run(fmt.Sprintf("%s, limit %d", name, limit), func(t *testing.T) {
				t.Parallel()
				f := newSessionBundle(t)
				f.exec(t, "SELECT oarlock.set_queue('default', max_running => $1)", limit)
				s := f.register(t)
				sweep(t, s)
				appear := late(t, f)
				s.RaiseCursors(f.now(t))
				appear()
				f.wantBelow(t, s)
			})
		}
	}
}

// wantBelow wants a sweep to find all due runs, and polls to claim them in their order.
func (f *sessionBundle) wantBelow(t *testing.T, s *queue.Session) {
	t.Helper()
	ids := value[[]queue.RunID](t, f.clientBundle, "SELECT array_agg(run_id ORDER BY lane_id, ready_at, run_id) FROM oarlock.runs WHERE state = 'queued'")
	if p := poll(t, s, 100); len(p.Claims) > 0 {
		t.Fatalf("claimed %v, below where polls begin", runsOf(p.Claims))
	}
	if !sweep(t, s).Late {
		t.Error("a sweep finds nothing")
	}
	if got := runsOf(poll(t, s, 100).Claims); !slices.Equal(got, ids) || len(ids) == 0 {
		t.Errorf("claimed %v, want %v", got, ids)
	}
}

// ends returns a function that ends a transaction in this way.
func ends(t *testing.T, way func(context.Context) error) func() {
	return func() {
		if err := way(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func retries(t *testing.T, f *sessionBundle) func() {
	runs := f.ask(t, "plain", 2)
	for _, run := range runs {
		f.claim(t, run)
		f.end(t, run, "failed")
	}
	app := f.opened(t, fmt.Sprintf("SELECT oarlock.retry(%d, 'all')", runs[1]), fmt.Sprintf("SELECT oarlock.retry(%d, 'all')", runs[0]))
	return ends(t, app.Commit)
}

// beside sends a statement that waits over another connection, and returns a function that waits for its end.
func (f *sessionBundle) beside(t *testing.T, statement, waits string) (ended func()) {
	conn, done := f.db.Conn(t), make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), statement)
		done <- err
	}()
	f.blocked(t, waits)
	return func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func waitsForLane(t *testing.T, f *sessionBundle) func() {
	makes := f.opened(t, "SELECT oarlock.enqueue('plain', priority => -3)")
	ended := f.beside(t, "SELECT oarlock.enqueue('plain', priority => -3)", "priority => -3")
	commit := ends(t, makes.Commit)
	return func() {
		commit()
		ended()
	}
}

func locks(t *testing.T, f *sessionBundle) func() {
	f.ask(t, "plain", 3)
	return ends(t, f.opened(t, "SELECT FROM oarlock.runs FOR NO KEY UPDATE").Rollback)
}

// A prepared transaction is as open as any other, although no session holds it.
func TestCursors_FindWhatWasPrepared(t *testing.T) {
	t.Parallel()
	o, node := alone(t, map[string]string{"max_prepared_transactions": "2"}) // the shared server cannot prepare transactions
	db := &pgtest.DB{URL: node.URL()}
	f := &sessionBundle{clientBundle: &clientBundle{db: db, conn: db.Conn(t), store: o.Store}, worker: o.Store}
	f.put(t, plainDAG)
	s := f.register(t)
	sweep(t, s)
	tx := f.opened(t, "SELECT oarlock.enqueue('plain')", "PREPARE TRANSACTION 'p'")
	_ = tx.Rollback(t.Context()) // the session has no transaction any more
	s.RaiseCursors(f.now(t))
	f.exec(t, "COMMIT PREPARED 'p'")
	f.wantBelow(t, s)
}

// A clock that was set back puts new runs below every cursor.
func TestCursors_FallWithTheClock(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	sweep(t, s)
	s.RaiseCursors(f.now(t).Add(time.Hour))
	f.ask(t, "plain", 2)
	f.wantBelow(t, s)
}

// A new connection may lead to a promoted server with a clock that is behind.
func TestCursors_BeginAnewBehindANewConnection(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	sweep(t, s)
	s.RaiseCursors(f.now(t).Add(time.Hour))
	ids := f.ask(t, "plain", 2)
	f.cut(t, s)
	poll(t, s, 0) // over the new connection
	if p := poll(t, s, 2); !slices.Equal(runsOf(p.Claims), ids) {
		t.Errorf("claimed %v, want %v", runsOf(p.Claims), ids)
	}
}

// A worker may have swept, and set its cursors, before a prune closes a lane, while the lane is closed, and after it is open again.
func TestPrune_WorkersClaimFromALaneThatOpensAgain(t *testing.T) {
	t.Parallel()
	const ask = "SELECT oarlock.enqueue('plain', priority => 5)"
	for name, between := range map[string]bool{"sweep between": true, "no sweep between": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionBundle(t)
			f.exec(t, ask)
			s := calm(t, f.register(t))
			f.exec(t, "SELECT oarlock.cancel(1)")
			f.exec(t, "SELECT oarlock.prune()")
			if open := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.lanes WHERE priority = 5 AND closed IS NULL"); open != 0 {
				t.Fatalf("%d lanes are open", open)
			}
			if between {
				calm(t, s)
			}
			f.exec(t, ask)
			look(t, s)
			if claims := poll(t, s, 1).Claims; len(claims) != 1 {
				t.Errorf("%d runs are claimed, want the one in the lane that is open again", len(claims))
			}
		})
	}
}
