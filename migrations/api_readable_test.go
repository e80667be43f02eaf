package migrations_test

import (
	"strings"
	"testing"
)

// A value that Postgres stores and Go cannot read would hide whole lists from all their readers, so each way in refuses it.
func TestJSON_IsRefusedDeeperThanProgramsRead(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "any", "params": [{"name": "n", "type": "json"}, {"name": "one", "type": "json", "enum": [1, "x"]}],
		"steps": [{"id": "ok", "action": "approval"}, {"id": "load", "command": "true", "precomputable": true}]}`)
	must(t, b.conn, `SELECT oarlock.put_schedule('any', 'daily', every => '1 day')`)
	run := get[int64](t, b.conn, "SELECT oarlock.enqueue('any')")
	b.claim(t, run)
	b.waits(t, run, 0, "ok?", nil)
	ended := get[int64](t, b.conn, "SELECT oarlock.enqueue('any')")
	b.claim(t, ended)
	b.leave(t, ended, "failed")
	must(t, b.conn, `CREATE FUNCTION public.nested(n int) RETURNS jsonb RETURN jsonb_build_object('n', (repeat('[', n) || repeat(']', n))::jsonb);
		CREATE FUNCTION public.mixed(n int) RETURNS jsonb RETURN jsonb_build_object('n', (repeat('{"a": [1, ', n) || '2' || repeat(']}', n))::jsonb);
		CREATE TABLE public.packed AS SELECT public.nested(700) AS deep`)
	if size := get[int](t, b.conn, "SELECT pg_column_size(deep) FROM public.packed"); size > 4000 {
		t.Errorf("a compressed value has %d bytes, so it does not go the short way", size)
	}
	const param, outputs, deep = `param "n": `, "outputs: ", "lists and objects are nested more than 500 deep"
	for _, c := range []struct{ statement, wrong string }{
		{"SELECT oarlock.enqueue('any', nested(500))", ""},
		{"SELECT oarlock.enqueue('any', nested(501))", param + deep},
		{"SELECT oarlock.enqueue('any', mixed(250))", ""},
		{"SELECT oarlock.enqueue('any', mixed(251))", param + deep},
		{"SELECT oarlock.enqueue('any', nested(9000))", param + deep},
		{"SELECT oarlock.enqueue('any', deep) FROM packed", param + deep},
		{"SELECT oarlock.enqueue('any', nested(501), version => 1)", param + deep},
		{"SELECT oarlock.enqueue('any', jsonb_build_object('one', nested(501)))", `param "one": `},
		{"SELECT oarlock.enqueue('any', labels => nested(501))", "labels must be an object of texts"},
		{"SELECT oarlock.enqueue('any', selector => nested(501))", "selector must be an object of texts"},
		{"SELECT oarlock.enqueue('any', precomputed => jsonb_build_object('load', jsonb_build_object('outputs', nested(501))))", "precomputed: " + deep},
		{"INSERT INTO oarlock.inbox (dag, params) VALUES ('any', nested(501))", param + deep},
		{"SELECT oarlock.enqueue_many('any', ARRAY['{}', nested(501)])", "row 2: " + param + deep},
		{"SELECT oarlock.rerun(2, nested(501))", param + deep},
		{"SELECT oarlock.put_schedule('any', 's', every => '1 day', params => nested(501))", param + deep},
		{"SELECT oarlock.put_schedules(jsonb_build_array(jsonb_build_object('dag', 'any', 'name', 's', 'every', '1 day', 'params', nested(501))))", param + deep},
		{"SELECT oarlock.backfill('any', 'daily', now() - interval '2 days', now(), params => nested(501))", param + deep},
		{"SELECT oarlock.enqueue_child(1, 1, '', 0, 1, 1, 'any', nested(501))", param + deep},
		{"SELECT oarlock.approve(1, 'ok', outputs => jsonb_build_object('why', nested(499)))", outputs + deep},
		{"SELECT oarlock.mark(1, 'load', 'succeeded', outputs => nested(501))", outputs + deep},
		{`SELECT oarlock.put_dag(jsonb_build_object('name', 'deep', 'steps', '[{"id": "a"}]'::jsonb, 'labels', nested(501)), '', 'h', '{}')`, "the spec: " + deep},
	} {
		_, err := b.conn.Exec(t.Context(), "SET search_path = public; "+c.statement)
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || len(err.Error()) > 300) {
			t.Errorf("%s: got %.300v, want %q", c.statement, err, c.wrong)
		}
	}
	wantCode(t, b.conn, "OA012", "SELECT oarlock.enqueue('any', public.nested(501))")
}

// RFC 3339, in which programs read and write times, has the years 0 to 9999.
func TestTimes_AreRefusedOutsideOfKnownYears(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "any", "steps": [{"id": "a"}]}`)
	must(t, b.conn, `SELECT oarlock.put_schedule('any', 'daily', every => '1 day')`)
	parent := get[int64](t, b.conn, "SELECT oarlock.enqueue('any')")
	b.claim(t, parent)
	for _, at := range []string{"294276-01-01Z", "9900-01-01Z", "9999-12-31 23:59-12", "0019-12-31Z", "0044-03-15Z BC", "infinity", "-infinity"} {
		for _, statement := range []string{
			"SELECT oarlock.enqueue('any', run_at => $1)",
			"SELECT oarlock.enqueue('any', logical_at => $1)",
			"SELECT oarlock.enqueue('any', logical_at => $1, run_at => now())",
			"SELECT oarlock.enqueue('any', logical_at => now(), run_at => $1)",
			"SELECT oarlock.enqueue('any', logical_at => $1, priority => 0)",
			"SELECT oarlock.enqueue('any', run_at => $1, version => 1)",
			"INSERT INTO oarlock.inbox (dag, run_at) VALUES ('any', $1)",
			"INSERT INTO oarlock.inbox (dag, logical_at) VALUES ('any', $1)",
			"SELECT oarlock.enqueue_many('any', ARRAY['{}']::jsonb[], run_at => $1)",
			"SELECT oarlock.enqueue_child(1, 0, '', 0, 1, 1, 'any', detached => true, run_at => $1)",
			"SELECT oarlock.put_schedule('any', 'at', at => $1)",
			"SELECT oarlock.put_schedule('any', 'start', every => '1 day', start_at => $1)",
			"SELECT oarlock.put_schedule('any', 'end', every => '1 day', end_at => $1)",
			"SELECT oarlock.trigger_schedule('any', 'daily', $1)",
			"SELECT oarlock.backfill('any', 'daily', $1, $1::timestamptz + interval '2 days')",
			"SELECT oarlock.backfill('any', 'daily', $1::timestamptz - interval '2 days', $1)",
		} {
			wantCode(t, b.conn, "OA013", strings.ReplaceAll(statement, "$1", "'"+at+"'"))
		}
	}
	for _, at := range []string{"9899-12-31 23:59:59.999999Z", "0020-01-01Z"} {
		must(t, b.conn, "SELECT oarlock.enqueue('any', run_at => $1::text::timestamptz), oarlock.enqueue('any', logical_at => $1::text::timestamptz, priority => 0)", at)
		must(t, b.conn, "SELECT oarlock.trigger_schedule('any', 'daily', $1::text::timestamptz)", at)
	}
}
