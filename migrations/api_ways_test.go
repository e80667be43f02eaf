package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Each request that enqueue takes in its one statement, the long way must take too, and must store the same. A request with a
// version, even the current one, goes the long way.
func TestEnqueue_ItsShortWayIsAsStrictAsItsLongOne(t *testing.T) {
	t.Parallel()
	b := api(t)
	must(t, b.conn, `SELECT oarlock.put_dag('{"name": "late", "labels": {"a": "b"}, "steps": [{"id": "a", "run": "true"}]}', '', 'h', '{}', queue_timeout_ms => 3600000)`)
	b.put(t, `{"name": "gone", "steps": [{"id": "a", "run": "true"}]}`)
	must(t, b.conn, "SELECT oarlock.set_dag('gone', removed => true)")
	for _, args := range []string{
		`'report', '{"day": "x"}'`, `'report', '{"day": "x", "n": 5}'`, `'report', '{"day": "x", "n": 5.0}'`, `'report', '{"day": "x", "n": 6}'`,
		`'report', '{"day": "x", "n": "5"}'`, `'report', '{"day": 3}'`, `'report', '{"day": ["x"]}'`, `'report', '{"day": "x", "more": 1}'`,
		`'report', '["day"]'`, `'report', '"day"'`, `'report', 'null'`, `'report', NULL`, `'report', '{}'`, `'late', '{}'`, `'late', NULL`,
		`'gone'`, `'nope'`, `NULL`,
		`'late', labels => '{"a": "c", "d": "e"}'`, `'late', labels => '{"a": 1}'`, `'late', labels => '{"a": ["b"]}'`, `'late', labels => '{"a": {}}'`,
		`'late', labels => '{"a": null}'`, `'late', labels => '[]'`, `'late', labels => '["b"]'`, `'late', labels => '"b"'`, `'late', labels => 'null'`, `'late', labels => NULL`,
		`'late', labels => jsonb_build_object('a', repeat('x', 93))`, `'late', labels => jsonb_build_object('a', repeat('x', 94))`,
		`'late', labels => jsonb_build_object('a', repeat('x', 501))`, `'late', labels => jsonb_build_object(repeat('x', 101), '')`,
		`'late', traceparent => '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'`, `'late', traceparent => repeat('x', 256)`, `'late', traceparent => repeat('x', 257)`,
		`'late', run_at => '2100-01-01Z'`, `'late', run_at => 'infinity'`, `'late', run_at => '-infinity'`, `'late', logical_at => '2020-01-01Z'`,
		`'late', logical_at => 'infinity'`, `'late', logical_at => '-infinity'`, `'late', trigger => 'manual'`, `'late', trigger => 'child'`,
		`'late', priority => -1`, `'late', run_key => 'k'`,
	} {
		short, long := b.way(t, args), b.way(t, args+", version => 1")
		if short != long {
			t.Errorf("enqueue(%s): the short way has %s, the long one %s", args, short, long)
		}
	}
	if got := b.way(t, `'report', '{"day": "x"}'`); !strings.HasPrefix(got, "1 | 1 | ") {
		t.Errorf("a usual request was not accepted: %s", got)
	}
}

// way is the run that an enqueue made, without ids and times that no caller chooses.
func (b bundle) way(t *testing.T, args string) string {
	t.Helper()
	var run int64
	err := b.conn.QueryRow(t.Context(), "SELECT oarlock.enqueue("+args+")").Scan(&run)
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return strings.TrimSuffix(fmt.Sprint(pg.Code, " ", pg.Message), " in version 1")
	} else if err != nil {
		t.Fatal(err)
	}
	row := get[string](t, b.conn, `DELETE FROM oarlock.runs WHERE run_id = $1 RETURNING concat_ws(' | ', dag_id, version, lane_id, state, params, labels, precomputed IS NULL, run_at = created_at, run_at > created_at,
			logical_at = created_at, CASE WHEN logical_at <> created_at THEN logical_at END, trigger, root_id = run_id, depth,
			submitted_by, traceparent, queue_deadline - run_at)`, run)
	must(t, b.conn, "DELETE FROM oarlock.run_keys")
	return row
}

// The CHECK of runs calls a function. Each case breaks one of its rules.
func TestRuns_AreSound(t *testing.T) {
	t.Parallel()
	b := api(t)
	enqueue(t, b.conn)
	const mine = "claim_id = gen_random_uuid(), worker_id = gen_random_uuid()"
	for change, code := range map[string]string{
		"wake_at = NULL":                           "",
		"queue_deadline = now()":                   "",
		"state = 'running', " + mine:               "",
		"state = 'paused', " + mine:                "",
		"state = 'paused'":                         "",
		"state = 'waiting', wake_at = now()":       "",
		"state = 'succeeded', finished_at = now()": "",
		"state = 'lost'":                           "23514",
		mine:                                       "23514",
		"wake_at = now()":                          "23514",
		"finished_at = now()":                      "23514",
		"state = 'running'":                        "23514",
		"state = 'running', queue_deadline = now(), " + mine:               "",
		"state = 'running', wake_at = now(), " + mine:                      "23514",
		"state = 'running', claim_id = gen_random_uuid()":                  "23514",
		"state = 'paused', worker_id = gen_random_uuid()":                  "23514",
		"state = 'paused', wake_at = now()":                                "23514",
		"state = 'waiting', " + mine:                                       "23514",
		"state = 'waiting', finished_at = now()":                           "23514",
		"state = 'failed'":                                                 "23514",
		"state = 'canceled', finished_at = now(), " + mine:                 "23514",
		"state = 'succeeded', finished_at = now(), queue_deadline = now()": "",
		"trigger = 'cron'":                                                 "23514",
		"params = '[]'":                                                    "23514",
		"labels = '\"x\"'":                                                 "23514",
		"depth = 101":                                                      "23514",
		"depth = -1":                                                       "23514",
		"epoch = -1":                                                       "OA011",
		"generation = 0":                                                   "OA011",
		"losses = -1":                                                      "23514",
	} {
		tx, err := b.conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, tx, code, "UPDATE oarlock.runs SET "+change)
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
