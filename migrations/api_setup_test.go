package migrations_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// report is a DAG that uses each feature that the API checks.
const report = `{"name": "report", "labels": {"team": "billing"}, "params": [
	{"name": "day", "type": "string", "required": true}, {"name": "n", "type": "integer", "minimum": 1, "maximum": 5}],
	"steps": [{"id": "extract", "run": "true", "precomputable": true}, {"id": "load", "run": "true"},
		{"id": "confirm", "action": "approval", "with": {"prompt": "sure?"}}],
	"handler_on": {"exit": {"run": "true"}}}`

// api is a migrated database with a DAG.
func api(tb testing.TB) bundle {
	tb.Helper()
	return apiOf(tb, pgtest.New(tb))
}

func apiOf(tb testing.TB, db *pgtest.DB) bundle {
	tb.Helper()
	if t, ok := tb.(*testing.T); ok { // not in a benchmark, where counting costs time
		countCalls(t, db.URL)
	}
	b := bundleOf(tb, db)
	b.put(tb, report)
	return b
}

// apiWithRoles has the group roles too.
func apiWithRoles(t *testing.T) bundle {
	t.Helper()
	return apiOf(t, pgtest.NewWithRoles(t))
}

func (b bundle) put(tb testing.TB, spec string) {
	tb.Helper()
	must(tb, b.conn, "SELECT oarlock.put_dag($1::text::jsonb, 'source', md5($1::text), '{process}')", spec)
}

// user connects as a new user with these roles.
func (b bundle) user(t *testing.T, name string, roles ...string) *pgx.Conn {
	t.Helper()
	return connect(t, b.db.User(t, name, roles...))
}

func connect(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func must(tb testing.TB, db querier, statement string, args ...any) {
	tb.Helper()
	if _, err := db.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// get reads one value.
func get[T any](tb testing.TB, db querier, query string, args ...any) T {
	tb.Helper()
	var v T
	if err := db.QueryRow(tb.Context(), query, args...).Scan(&v); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return v
}

// wantCode requires an SQLSTATE, and a hint in errors of our own.
func wantCode(t *testing.T, db querier, code, statement string, args ...any) {
	t.Helper()
	_, err := db.Exec(t.Context(), statement, args...)
	var pg *pgconn.PgError
	switch {
	case code == "" && err != nil:
		t.Errorf("%s: %v", statement, err)
	case code != "" && (!errors.As(err, &pg) || pg.Code != code):
		t.Errorf("%s: got %v, want %s", statement, err, code)
	case code != "" && code[:2] == "OA" && pg.Hint == "":
		t.Errorf("%s: no hint: %v", statement, err)
	}
}

// enqueue makes a run of report.
func enqueue(t *testing.T, db querier) int64 {
	t.Helper()
	return get[int64](t, db, `SELECT oarlock.enqueue('report', '{"day": "x"}')`)
}

// claim claims a run like a worker does, as far as the API can see.
func (b bundle) claim(t *testing.T, run int64) {
	t.Helper()
	must(t, b.conn, `WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
		VALUES (md5($1::bigint::text)::uuid, 'w' || $1::bigint, 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, 'oarlock_test_' || $1::bigint) RETURNING worker_id)
		INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM w`, run)
	must(t, b.conn, `UPDATE oarlock.runs SET state = 'running', claim_id = gen_random_uuid(), worker_id = md5($1::bigint::text)::uuid, epoch = epoch + 1,
		started_at = coalesce(started_at, clock_timestamp()), queue_deadline = NULL WHERE run_id = $1`, run)
}

// leave ends the drive of a run and sets its state: parked, queued again, or over.
func (b bundle) leave(t *testing.T, run int64, state string) {
	t.Helper()
	must(t, b.conn, `UPDATE oarlock.runs SET state = $2, claim_id = NULL, worker_id = NULL, stage = 1,
		finished_at = CASE WHEN $2 IN ('succeeded', 'failed', 'canceled') THEN clock_timestamp() END WHERE run_id = $1`, run, state)
}

func (b bundle) state(t *testing.T, run int64) string {
	t.Helper()
	return get[string](t, b.conn, "SELECT concat_ws(' ', state, 'generation', generation, 'inbox', inbox) FROM oarlock.runs WHERE run_id = $1", run)
}
