package migrations_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// goodCalls are arguments that each function of a role takes, all of them.
func goodCalls() map[string]string {
	const report, day = "'report'", `'{"day": "x"}'`
	return map[string]string{
		"enqueue":        report + "; " + day + "; 'k'; now(); 0; 'default'; '{}'; '{}'; now(); 't'; '{}'; 1; 'sql'",
		"enqueue_many":   report + "; ARRAY[" + day + "]::jsonb[]; ARRAY['k']; now(); 0; 'default'; '{}'; '{}'; 't'; 1",
		"enqueue_child":  "1; 0; ''; 0; 1; 1; " + report + "; " + day + "; 0; 'default'; '{}'; true; 'k'; now()",
		"rerun":          "2; '{}'; false",
		"cancel":         "1; 'load'; 'i'; false",
		"pause":          "1; 'load'; 'i'",
		"resume":         "1; 'load'; 'i'",
		"retry":          "2; 'from'; 'load'; 'i'",
		"approve":        "1; 'confirm'; 'i'; '{}'",
		"reject":         "1; 'confirm'; 'i'; 'no'",
		"mark":           "1; 'load'; 'succeeded'; 'i'; '{}'",
		"control_status": "1", "control_list": "1", "run_status": "1", "task_status": "1", "run_result": "1", "log_steps": "1", "run_attempts": "1",
		"run_head": "1", "failure_history": "1", "step_summaries": "1",
		"task_page":     "1; 'load'; '{running}'; 'i'; -1; ''; 0; 9",
		"task_detail":   "1; 'load'; ''",
		"item_bands":    "1; '{load}'; ARRAY[now() - interval '5h']; ARRAY[now()]; 10",
		"journal":       "1; 9; 9; 9",
		"run_events":    "1; 0; 9",
		"run_list":      report + "; 'queued'; 'default'; '{}'; 1; now(); 9; 5",
		"run_page":      report + "; '{queued}'; 'default'; '{}'; 1; now(); 9; 5; 9",
		"scale_hint":    "'default'",
		"quiet_since":   "(SELECT w FROM oarlock.workers w LIMIT 1)",
		"may_serve":     "(SELECT w FROM oarlock.workers w LIMIT 1); '{}'; (SELECT l FROM oarlock.lanes l LIMIT 1)",
		"taken_over_by": "(SELECT w FROM oarlock.workers w LIMIT 1); now()",
		"read_log":      "1; 'extract'; ''; 1; -1; 9",
		"read_chunks":   "1; '{0}'; '{\"\"}'; '{0}'; '{1}'; '{2026-11-20}'; '{0}'; 9; 9",
		"log_attempts":  "1; 0; 0; 0; ''; 0",
		"log_window":    "1; 'extract'; ''; 1; 1; 9; 1; 9",
		"log_starts":    "1; '{0}'; '{\"\"}'; '{0}'; '{1}'; '{2026-11-20}'; 9; now()",
		"follow":        "1; 'c'; 60; true",
		"unfollow":      "1; 'c'",
		"put_dag":       `'{"name": "n", "steps": [{"id": "a"}]}'; 's'; 'h'; '{}'; 1; 0; 'p'; false; '{}'`,
		"set_dag":       report + "; true; false",
		"set_queue":     "'default'; false; 1; 1",
		"drain_worker":  "'w1'",
		"prune":         "9",
		"wake":          "1; 1; 1; now()",
		"wake_due":      "9", "expire_queued": "9",
		"set_aside":     "'{1}'; 9",
		"make_log_days": "1",
		"end_backends":  "gen_random_uuid()",
		"child_ended":   "2",
		"lanes_of":      "gen_random_uuid()", "room_of": "'default'; 1; 2",
		"pick_keyed": "1; 1; now(); 1", "counted_runs": "1; 'k'; 1", "is_full": `1; '[{"limit": 1}]'; '{k}'`,
		"claim_limited":      "gen_random_uuid(); '{}'; '{}'; '{}'; 'epoch'; 2; -100; false; false; '{}'; '{}'",
		"claim_family":       "gen_random_uuid(); 1; '{}'",
		"fail_run":           "1; gen_random_uuid(); 1; 'r'",
		"release_unreadable": "1; gen_random_uuid(); 1; 'r'; '1 s'; 5",
		"cron_times":         "'@daily'; 'UTC'; now(); 5",
		"attend":             "now(); 9",
		"put_schedule":       "'nightly'; 'x'; '@daily'; NULL; NULL; 'UTC'; '{}'; '{}'; 'skip'; 1; true; '1d'; 9; '1s'; now(); now() + interval '1 day'; '{2026-12-25}'; 3",
		"put_schedules":      `'[{"name": "x", "cron": "@daily"}]'; 'nightly'`,
		"drop_schedule":      "'nightly'; 's'; 'postgres'",
		"pause_schedule":     "'nightly'; 's'; 'note'; 'postgres'",
		"resume_schedule":    "'nightly'; 's'; true; 'postgres'",
		"trigger_schedule":   "'nightly'; 's'; now(); 'postgres'",
		"backfill":           "'nightly'; 's'; now() - interval '5h'; now(); 1; 'missing'; false; '{}'; 'postgres'",
		"backfill_times":     "'nightly'; 's'; now() - interval '5h'; now(); 'missing'; false; 'postgres'; 9",
		"schedule_list":      "'nightly'; 'postgres'; 9; 0; 's'",
		"schedule_fires":     "'nightly'; 's'; now(); 9; 'postgres'",
		"schedule_times":     "'nightly'; 's'; 5; 'postgres'",
		"keep":               "1; 's'; 'k'; '{}'; 1; 0; true", "place_of": "1; now(); now()",
	}
}

// goodSpecCalls are those of functions that read the spec of a DAG.
func goodSpecCalls() map[string]string {
	return map[string]string{
		"steps_of":     "'{}'",
		"edges_of":     "'{}'",
		"steps_behind": "'{}'; 'load'",
		"bodies_of":    "'load'; '{}'",
		"replacing":    "'{}'; '{}'",
	}
}

// goodPoolCalls are those of pools.
func goodPoolCalls() map[string]string {
	return map[string]string{
		"set_pool":     "'heavy'; 5; false; 100; '1 minute'; 20; 'note'",
		"set_pool_key": "'crm'; 'k'; 3",
		"close_pool":   "'crm'; 'k'; now()",
		"open_pool":    "'crm'; 'k'",
		"remove_pool":  "'crm'",
		"pool_list":    "'crm'",
		"pool_permits": "'crm'; 'k'; 5",
		"crowded_pool": "'{crm}'",
		"permits":      "gen_random_uuid(); 1; '[]'",
		"leave_alone":  "41; '{crm}'; '{k}'; '1 minute'",
	}
}

// A null is as if the argument were left out, or it is refused in words: by a code of ours, or as a value that may not be
// null or not have that form. It never fails somewhere inside.
func TestAPI_ANullIsTheDefaultOrRefused(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	b.put(t, nightlyDAG)
	must(t, b.conn, "SELECT oarlock.put_schedule('nightly', 's', every => '1h')")
	must(t, b.conn, "SELECT oarlock.set_pool('crm', slots => 1, per_key => true)")
	b.claim(t, enqueue(t, b.conn))
	ended := enqueue(t, b.conn)
	b.claim(t, ended)
	b.leave(t, ended, "failed")
	all := goodCalls()
	maps.Copy(all, goodPoolCalls())
	maps.Copy(all, goodSpecCalls())
	roles := b.list(t, `SELECT DISTINCT p.proname::text FROM pg_proc p, aclexplode(p.proacl) a
		WHERE p.pronamespace = 'oarlock'::regnamespace AND a.grantee <> p.proowner AND p.pronargs > 0 AND p.proname <> 'is_sound' ORDER BY 1`)
	if known := slices.Sorted(maps.Keys(all)); !slices.Equal(known, roles) {
		t.Errorf("functions with arguments are %v, known are %v", roles, known)
	}
	for name, good := range all {
		args := strings.Split(good, "; ")
		if code := b.codeOf(t, name, args); code != "" {
			t.Errorf("oarlock.%s(%s) fails: %s", name, good, code)
		}
		for i := range args {
			with := slices.Clone(args)
			with[i] = "NULL"
			if code := b.codeOf(t, name, with); code != "" && !strings.HasPrefix(code, "OA0") && code != "22004" && code != "22023" {
				t.Errorf("oarlock.%s(%s) fails: %s", name, strings.Join(with, ", "), code)
			}
		}
	}
}

// codeOf calls a function in a transaction that it rolls back, and returns the SQLSTATE of the error.
func (b bundle) codeOf(t *testing.T, name string, args []string) string {
	t.Helper()
	must(t, b.conn, "BEGIN")
	defer must(t, b.conn, "ROLLBACK")
	_, err := b.conn.Exec(t.Context(), "SELECT f FROM oarlock."+name+"("+strings.Join(args, ", ")+") f")
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// A null is refused if it would leave a call without a bound.
func TestAPI_ANullIsNotWithoutABound(t *testing.T) {
	t.Parallel()
	b := api(t)
	for _, call := range []string{"wake_due(NULL)", "expire_queued(NULL)", "set_aside('{1}', NULL)", "set_aside(NULL, 1)"} {
		wantCode(t, b.conn, "22004", "SELECT oarlock."+call)
	}
	run := enqueue(t, b.conn)
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, log_day) VALUES ($1, 0, 'running', 1, 1, 1, 1, '2026-11-20')`, run)
	must(t, b.conn, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data)
		SELECT '2026-11-20', $1, 0, '', 0, 1, n, 1, now(), 'x' FROM generate_series(0, 1999) n`, run)
	must(t, b.conn, "INSERT INTO oarlock.events (run_id, kind) SELECT $1, 'began' FROM generate_series(1, 1100)", run)
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, item, state, attempt, generation, epoch, seq)
		SELECT $1, 0, 'i' || n, 'running', 1, 1, 1, 1 FROM generate_series(1, 1100) n`, run)
	for call, want := range map[string]int{
		"read_chunks($1, '{0}', '{\"\"}', '{0}', '{1}', '{2026-11-20}', '{0}', NULL, NULL)": 1000,
		"read_chunks($1, '{0}', '{\"\"}', '{0}', '{1}', '{2026-11-20}', '{0}', 10, NULL)":   10,
		"read_chunks($1, '{0}', '{\"\"}', '{0}', '{1}', '{2026-11-20}', '{0}', NULL, 10)":   10,
		"read_chunks($1, '{0}', '{\"\"}', '{0}', '{1}', '{2026-11-20}', '{NULL}', 10, 10)":  10,
		"journal($1, NULL, NULL, NULL)":                                                        1001,
		"task_page($1, NULL, NULL, NULL, -1, '', 0, NULL)":                                     1001,
		"read_log($1, 'extract', max_rows => NULL)":                                            1000,
		"read_log($1, 'extract', after => NULL)":                                               1000,
		"enqueue('report', '{\"day\": \"x\"}', trigger => NULL, run_key => 'k' || $1::bigint)": 1,
	} {
		if got := get[int](t, b.conn, "SELECT count(*) FROM oarlock."+call, run); got != want {
			t.Errorf("%s gives %d rows, want %d", call, got, want)
		}
	}
	if got := get[string](t, b.conn, "SELECT trigger FROM oarlock.runs WHERE run_key IS NOT NULL"); got != "sql" {
		t.Errorf("no trigger is %q", got)
	}
}
