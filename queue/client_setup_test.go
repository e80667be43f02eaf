package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// clientBundle is a database with a DAG, and a store of the database's owner.
type clientBundle struct {
	db    *pgtest.DB
	conn  *pgx.Conn // of the owner, for what no client may do
	store *queue.Store
}

const reportDAG = `
name: report
labels: {team: billing}
params: [{name: day, type: string, required: true}, {name: n, type: integer, minimum: 1, maximum: 5}]
queue_timeout: 1h
retention: {days: 30}
steps:
  - {id: extract, run: "true", precomputable: true, outputs: [rows]}
  - {id: load, run: "true", depends: [extract], slots: 3, outputs: [rows]}
  - {id: confirm, action: approval, with: {prompt: "sure?"}, depends: [load]}
handler_on: {exit: {run: "true"}}
`

func newClientBundle(tb testing.TB) *clientBundle {
	tb.Helper()
	db := pgtest.NewWithRoles(tb)
	d := &clientBundle{db: db, conn: db.Conn(tb)}
	d.store = d.open(tb, db.URL)
	d.put(tb, reportDAG)
	return d
}

func (d *clientBundle) open(tb testing.TB, url string) *queue.Store {
	tb.Helper()
	store, err := queue.Open(tb.Context(), queue.Config{URL: url})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(store.Close)
	return store
}

func (d *clientBundle) put(tb testing.TB, source string) queue.Put {
	tb.Helper()
	put, err := d.store.PutDAG(tb.Context(), parsed(tb, source), source, "")
	if err != nil {
		tb.Fatal(err)
	}
	return put
}

func parsed(tb testing.TB, source string) *dagspec.Spec {
	tb.Helper()
	spec, err := dagspec.Parse("dag.yaml", []byte(source))
	if err != nil {
		tb.Fatal(err)
	}
	return spec
}

// report is a valid request.
func report(key string) queue.Request {
	return queue.Request{DAG: "report", Params: map[string]any{"day": "2026-11-20"}, Key: key}
}

func (d *clientBundle) enqueue(tb testing.TB, store *queue.Store) queue.RunID {
	tb.Helper()
	id, err := store.Enqueue(tb.Context(), report(""))
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

func (d *clientBundle) get(tb testing.TB, run queue.RunID) *queue.Run {
	tb.Helper()
	r, err := d.store.Get(tb.Context(), run)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (d *clientBundle) exec(tb testing.TB, statement string, args ...any) {
	tb.Helper()
	if _, err := d.conn.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// value reads one value.
func value[T any](tb testing.TB, d *clientBundle, query string, args ...any) (v T) {
	tb.Helper()
	if err := d.conn.QueryRow(tb.Context(), query, args...).Scan(&v); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return v
}

// user returns the URL of a new user that is a member of these roles.
func (d *clientBundle) user(tb testing.TB, name string, groups ...string) string {
	tb.Helper()
	return d.db.User(tb, name, groups...)
}

// claim changes a run as a worker's claim does, as far as clients can see.
func (d *clientBundle) claim(tb testing.TB, run queue.RunID) {
	tb.Helper()
	d.exec(tb, `WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
		VALUES (md5($1::bigint::text)::uuid, 'w' || $1::bigint, 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, 'oarlock_test_' || $1::bigint) RETURNING worker_id)
		INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM w`, run)
	d.exec(tb, `UPDATE oarlock.runs SET state = 'running', claim_id = gen_random_uuid(), worker_id = md5($1::bigint::text)::uuid, epoch = epoch + 1,
		started_at = coalesce(started_at, clock_timestamp()), queue_deadline = NULL WHERE run_id = $1`, run)
}

// end changes a run as its end does, whether it was claimed or not.
func (d *clientBundle) end(tb testing.TB, run queue.RunID, state string) {
	tb.Helper()
	d.exec(tb, `UPDATE oarlock.runs SET state = $2, claim_id = NULL, worker_id = NULL, queue_deadline = NULL, finished_at = clock_timestamp()
		WHERE run_id = $1`, run, state)
}

const patience = 20 * time.Second

// wantError wants an error that is a sentinel and has an SQLSTATE; nil or "" means none.
func wantError(tb testing.TB, err, sentinel error, code string) {
	tb.Helper()
	var known *queue.Error
	switch {
	case err == nil:
		tb.Errorf("no error, want %v %s", sentinel, code)
	case sentinel != nil && !errors.Is(err, sentinel):
		tb.Errorf("%v is not %v", err, sentinel)
	case code != "" && (!errors.As(err, &known) || known.Code != code || known.Hint == ""):
		tb.Errorf("%v: want %s, with a hint", err, code)
	}
}
