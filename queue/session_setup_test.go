package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// sessionBundle is a clientBundle with a login that has only the role of a worker.
type sessionBundle struct {
	*clientBundle
	url    string
	worker *queue.Store
}

const plainDAG = "name: plain\nsteps: [{id: a, run: \"true\"}, {id: b, run: \"true\", depends: [a]}]\n"

func newSessionBundle(tb testing.TB) *sessionBundle {
	tb.Helper()
	f := &sessionBundle{clientBundle: newClientBundle(tb)}
	f.put(tb, plainDAG)
	f.url = f.user(tb, "fleet", "oarlock_worker")
	f.worker = f.open(tb, f.url)
	f.worker.ConnectLate()
	return f
}

// describe returns a worker that may claim every run of these tests.
func describe() queue.Worker {
	return queue.Worker{
		ID: uuid.New(), Name: "w", Host: "h", BootID: "b", PID: 1, Version: "v", Slots: 100, Containment: "none", TTL: 30 * time.Second,
		Offers: []string{"process", "approval", "on_error", "handlers"},
	}
}

func (f *sessionBundle) register(tb testing.TB, change ...func(*queue.Worker)) *queue.Session {
	tb.Helper()
	return f.registerAt(tb, f.worker, change...)
}

func (f *sessionBundle) registerAt(tb testing.TB, store *queue.Store, change ...func(*queue.Worker)) *queue.Session {
	tb.Helper()
	w := describe()
	for _, c := range change {
		c(&w)
	}
	s, err := store.Register(tb.Context(), w)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close(context.WithoutCancel(tb.Context())) })
	return s
}

// ask enters runs of a DAG, numbered from the first.
func (f *sessionBundle) ask(tb testing.TB, dag string, n int) (ids []queue.RunID) {
	tb.Helper()
	bulk := queue.Bulk{DAG: dag, Params: make([]any, n)}
	for i := range bulk.Params {
		bulk.Params[i] = map[string]any{}
	}
	ids, err := f.store.EnqueueMany(tb.Context(), bulk)
	if err != nil {
		tb.Fatal(err)
	}
	return ids
}

func poll(tb testing.TB, s *queue.Session, want int) queue.Polled {
	tb.Helper()
	p, err := s.Poll(tb.Context(), queue.Want{Slots: want, Free: want})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// look makes a look, and does the chores that it found.
func look(tb testing.TB, s *queue.Session) queue.Looked {
	tb.Helper()
	looked, err := s.Look(tb.Context(), queue.Load{})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := s.DoChores(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return looked
}

func sweep(tb testing.TB, s *queue.Session) queue.Swept {
	tb.Helper()
	swept, err := s.SweepAll(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return swept
}

// turn does the rounds of a worker: it looks, sweeps, and polls.
func turn(tb testing.TB, s *queue.Session, want int) queue.Polled {
	tb.Helper()
	look(tb, s)
	sweep(tb, s)
	return poll(tb, s, want)
}

func runsOf(claims []*queue.Claim) []queue.RunID {
	ids := make([]queue.RunID, len(claims))
	for i, c := range claims {
		ids[i] = c.Run
	}
	return ids
}

// states returns the number of runs by state, as "state:n".
func (f *sessionBundle) states(tb testing.TB) string {
	tb.Helper()
	return value[string](tb, f.clientBundle, `SELECT coalesce(string_agg(s, ' ' ORDER BY s), '') FROM
		(SELECT state || ':' || count(*) AS s FROM oarlock.runs GROUP BY state) x`)
}

func (f *sessionBundle) wantStates(tb testing.TB, want string, args ...any) {
	tb.Helper()
	if got := f.states(tb); got != fmt.Sprintf(want, args...) {
		tb.Errorf("runs are %s, want %s", got, fmt.Sprintf(want, args...))
	}
}

// now returns the database's time.
func (f *sessionBundle) now(tb testing.TB) time.Time {
	tb.Helper()
	return value[time.Time](tb, f.clientBundle, "SELECT clock_timestamp()")
}

// opened returns a transaction with some statements. The caller ends it.
func (f *sessionBundle) opened(t *testing.T, statements ...string) pgx.Tx {
	t.Helper()
	tx, err := f.db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	for _, s := range statements {
		if _, err := tx.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}

// lane is the one lane of plain.
func (f *sessionBundle) lane(t *testing.T) int {
	t.Helper()
	return value[int](t, f.clientBundle, "SELECT v.lane_id FROM oarlock.dags d JOIN oarlock.dag_versions v USING (dag_id) WHERE d.name = 'plain'")
}
