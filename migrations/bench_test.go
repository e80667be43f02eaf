package migrations_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Each benchmark has a bare twin: the same loop with a plain INSERT of the same rows into a table like runs, with its
// checks and indexes. Read the ratios; rates drift with the machine.

const bare = `
	CREATE TABLE bare (LIKE oarlock.runs INCLUDING ALL);
	CREATE VIEW bare_inbox AS SELECT dag_id, params FROM bare;
	CREATE FUNCTION bare_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	    IF jsonb_typeof(NEW.params) <> 'object' THEN RAISE 'params'; END IF;
	    INSERT INTO bare (dag_id, version, lane_id, params, run_at, logical_at, trigger, root_id, submitted_by)
	    VALUES (NEW.dag_id, 1, 1, NEW.params, clock_timestamp(), clock_timestamp(), 'sql', 1, session_user);
	    RETURN NEW;
	END $$;
	CREATE TRIGGER bare_insert INSTEAD OF INSERT ON bare_inbox FOR EACH ROW EXECUTE FUNCTION bare_insert()`

func benchmark(b *testing.B) *pgx.Conn {
	b.Helper()
	db := api(b)
	must(b, db.conn, bare)
	return db.conn
}

func BenchmarkEnqueue_One(b *testing.B) {
	for name, statement := range map[string]string{
		"oarlock": "SELECT oarlock.enqueue('report', $1)",
		"inbox":   "INSERT INTO oarlock.inbox (dag, params) VALUES ('report', $1) RETURNING run_id",
		"bare": `INSERT INTO bare (dag_id, version, lane_id, params, run_at, logical_at, trigger, root_id, submitted_by)
			VALUES (1, 1, 1, $1, clock_timestamp(), clock_timestamp(), 'sql', 1, session_user) RETURNING run_id`,
	} {
		b.Run(name, func(b *testing.B) {
			conn := benchmark(b)
			for b.Loop() {
				get[int64](b, conn, statement, map[string]any{"day": "2026-11-20", "n": 3})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

const bulk = 1000

func BenchmarkEnqueue_Many(b *testing.B) {
	rows := make([]map[string]any, bulk)
	keys := make([]string, bulk)
	for i := range rows {
		rows[i] = map[string]any{"day": "2026-11-20", "n": 3}
	}
	const bareRows = `INSERT INTO bare (dag_id, version, lane_id, params, run_at, logical_at, trigger, root_id, submitted_by)
		SELECT 1, 1, 1, p, now(), now(), 'sql', 1, session_user FROM unnest($1::jsonb[]) p RETURNING run_id`
	for _, c := range []struct {
		name, statement string
		keyed           bool
	}{
		{"oarlock", "SELECT oarlock.enqueue_many('report', $1)", false},
		{"keyed", "SELECT oarlock.enqueue_many('report', $1, $2)", true},
		{"bare", bareRows, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			conn := benchmark(b)
			round := 0
			for b.Loop() {
				args := []any{rows}
				if c.keyed {
					for i := range keys {
						keys[i] = fmt.Sprint(round, "-", i)
					}
					args = append(args, keys)
				}
				must(b, conn, c.statement, args...)
				round++
			}
			b.ReportMetric(float64(b.N*bulk)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkEnqueue_InboxBulk(b *testing.B) {
	for name, statement := range map[string]string{
		"oarlock": `INSERT INTO oarlock.inbox (dag, params) SELECT 'report', '{"day": "2026-11-20", "n": 3}' FROM generate_series(1, $1)`,
		"keyed":   `INSERT INTO oarlock.inbox (dag, params, run_key) SELECT 'report', '{"day": "2026-11-20", "n": 3}', gen_random_uuid() FROM generate_series(1, $1)`,
		"bare":    `INSERT INTO bare_inbox (dag_id, params) SELECT 1, '{"day": "2026-11-20", "n": 3}' FROM generate_series(1, $1)`,
	} {
		b.Run(name, func(b *testing.B) {
			conn := benchmark(b)
			for b.Loop() {
				must(b, conn, statement, bulk)
			}
			b.ReportMetric(float64(b.N*bulk)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
