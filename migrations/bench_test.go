package migrations_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Each benchmark has a bare twin: the same rows with the same keys into equal tables, with their indexes and checks, one
// check of the params, one round trip, in plain SQL. function_alone is the bare insert in a function of the kind that the API
// must have, and shows the cost of a function by itself. Read the ratios; rates drift with the machine.

const (
	bareColumns = `dag_id, version, lane_id, params, labels, run_at, logical_at, trigger, root_id, submitted_by`
	bareValues  = `1, 1, 1, p, '{"team": "billing"}', clock_timestamp(), clock_timestamp(), 'sql', 1, session_user`
	bareInsert  = "INSERT INTO public.bare (" + bareColumns + ") SELECT " + bareValues
	bareKeys    = "INSERT INTO public.bare_keys (submitter, run_key, run_id, request_hash) SELECT session_user, k, nextval('public.bare_run_id_seq'), sha256(convert_to(p::text, 'UTF8'))"
	bareKeyed   = "INSERT INTO public.bare (run_id, run_key, " + bareColumns + ") OVERRIDING SYSTEM VALUE SELECT run_id, run_key, " + bareValues
	bareTrigger = ` RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE p jsonb := NEW.params; k text := NEW.run_key; BEGIN
		IF jsonb_typeof(p) <> 'object' THEN RAISE 'params'; END IF; `
)

const bare = `
	CREATE TABLE bare (LIKE oarlock.runs INCLUDING ALL);
	CREATE TABLE bare_keys (LIKE oarlock.run_keys INCLUDING ALL);
	CREATE VIEW bare_inbox AS SELECT run_id, params, run_key FROM bare;
	CREATE FUNCTION bare_insert()` + bareTrigger + bareInsert + ` RETURNING run_id INTO NEW.run_id; RETURN NEW; END $$;
	CREATE TRIGGER bare_insert INSTEAD OF INSERT ON bare_inbox FOR EACH ROW EXECUTE FUNCTION bare_insert();
	CREATE VIEW bare_keyed AS SELECT run_id, params, run_key FROM bare;
	CREATE FUNCTION bare_keyed()` + bareTrigger + `WITH keys AS (` + bareKeys + ` RETURNING run_id, run_key) ` + bareKeyed + ` FROM keys RETURNING run_id INTO NEW.run_id; RETURN NEW; END $$;
	CREATE TRIGGER bare_keyed INSTEAD OF INSERT ON bare_keyed FOR EACH ROW EXECUTE FUNCTION bare_keyed();
	CREATE FUNCTION bare_call(p jsonb) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	DECLARE id bigint; BEGIN
		IF jsonb_typeof(p) <> 'object' THEN RAISE 'params'; END IF; ` + bareInsert + ` RETURNING run_id INTO id; RETURN id; END $$;`

func benchmark(b *testing.B) *pgx.Conn {
	b.Helper()
	db := api(b)
	must(b, db.conn, bare)
	return db.conn
}

// duel is a statement of the API and its twin; both take the same arguments.
type duel struct{ name, ours, bare string }

// fight runs both in turns, each on a database of its own, so that other load of the machine hits both, and compares the
// medians.
func fight(b *testing.B, rows int, args func(round int) []any, duels ...duel) {
	b.Helper()
	for _, d := range duels {
		b.Run(d.name, func(b *testing.B) {
			conns := [2]*pgx.Conn{benchmark(b), benchmark(b)}
			var took [2][]time.Duration
			for round := 0; b.Loop(); round++ {
				given := args(round)
				for i, statement := range []string{d.ours, d.bare} {
					start := time.Now()
					must(b, conns[i], statement, given...)
					took[i] = append(took[i], time.Since(start))
				}
			}
			ours, bare := median(took[0]), median(took[1])
			b.ReportMetric(float64(rows)/ours.Seconds(), "rows/s")
			b.ReportMetric(float64(rows)/bare.Seconds(), "bare-rows/s")
			b.ReportMetric(float64(bare)/float64(ours), "x-bare")
			b.ReportMetric(0, "ns/op") // the time of both together means nothing
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

var someParams = map[string]any{"day": "2026-11-20", "n": 3}

const (
	one     = " FROM (VALUES ($1::jsonb)) v (p) WHERE jsonb_typeof(p) = 'object' RETURNING run_id"
	oneKey  = "WITH keys AS (" + bareKeys + " FROM (VALUES ($1::jsonb, $2::text)) v (p, k) RETURNING run_id, run_key) " + bareKeyed + " FROM keys, (SELECT $1::jsonb) v (p) WHERE jsonb_typeof(p) = 'object' RETURNING run_id"
	manyKey = "WITH asked AS MATERIALIZED (SELECT nextval('public.bare_run_id_seq') AS run_id, p, k AS run_key FROM unnest($1::jsonb[], $2::text[]) u (p, k) " +
		"WHERE jsonb_typeof(p) = 'object'), keys AS (INSERT INTO bare_keys (submitter, run_key, run_id, request_hash) " +
		"SELECT session_user, run_key, run_id, sha256(convert_to(p::text, 'UTF8')) FROM asked) " + bareKeyed + " FROM asked RETURNING run_id"
)

func BenchmarkEnqueue_One(b *testing.B) {
	fight(b, 1, func(int) []any { return []any{someParams} },
		duel{"function", "SELECT oarlock.enqueue('report', $1)", bareInsert + one},
		duel{"function_alone", "SELECT bare_call($1)", bareInsert + one},
		duel{"inbox", "INSERT INTO oarlock.inbox (dag, params) VALUES ('report', $1) RETURNING run_id", "INSERT INTO bare_inbox (params) VALUES ($1) RETURNING run_id"},
	)
	fight(b, 1, func(round int) []any { return []any{someParams, fmt.Sprint(round)} },
		duel{"keyed", "SELECT oarlock.enqueue('report', $1, $2)", oneKey})
}

const bulk = 1000

func BenchmarkEnqueue_Many(b *testing.B) {
	rows, keys := make([]map[string]any, bulk), make([]string, bulk)
	for i := range rows {
		rows[i] = someParams
	}
	fight(b, bulk, func(int) []any { return []any{rows} },
		duel{"plain", "SELECT oarlock.enqueue_many('report', $1)", bareInsert + " FROM unnest($1::jsonb[]) p WHERE jsonb_typeof(p) = 'object' RETURNING run_id"})
	fight(b, bulk, func(round int) []any {
		for i := range keys {
			keys[i] = fmt.Sprint(round, "-", i)
		}
		return []any{rows, keys}
	}, duel{"keyed", "SELECT oarlock.enqueue_many('report', $1, $2)", manyKey})
}

func BenchmarkEnqueue_InboxBulk(b *testing.B) {
	const row, rows = `'{"day": "2026-11-20", "n": 3}'`, " FROM generate_series(1, $1)"
	fight(b, bulk, func(int) []any { return []any{bulk} },
		duel{"plain", "INSERT INTO oarlock.inbox (dag, params) SELECT 'report', " + row + rows, "INSERT INTO bare_inbox (params) SELECT " + row + rows},
		duel{
			"keyed", "INSERT INTO oarlock.inbox (dag, params, run_key) SELECT 'report', " + row + ", gen_random_uuid()" + rows,
			"INSERT INTO bare_keyed (params, run_key) SELECT " + row + ", gen_random_uuid()" + rows,
		},
	)
}
