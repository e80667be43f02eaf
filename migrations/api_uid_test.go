package migrations_test

import (
	"regexp"
	"slices"
	"testing"
	"time"
)

var version7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestUID_IsNewInEveryWayOfAsking looks at the ways of the SQL API, each of which makes two runs.
func TestUID_IsNewInEveryWayOfAsking(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "plain", "steps": [{"id": "a", "run": "true"}]}`)
	ways := []string{
		`SELECT oarlock.enqueue('plain') FROM generate_series(1, 2)`,
		`SELECT oarlock.enqueue('plain', run_key => 'key ' || n) FROM generate_series(1, 2) n`,
		`SELECT oarlock.enqueue_many('plain', ARRAY['{}', '{}']::jsonb[])`,
		`SELECT oarlock.enqueue_many('plain', ARRAY['{}', '{}', '{}']::jsonb[], ARRAY['key 1', 'key 2', NULL])`,
		`SELECT oarlock.enqueue_many('plain', ARRAY['{}']::jsonb[])`,
		`INSERT INTO oarlock.inbox (dag) SELECT 'plain' FROM generate_series(1, 2)`,
		`SELECT oarlock.enqueue_child(1, 0, '', 0, n, 1, 'plain') FROM generate_series(1, 2) n`,
		`SELECT oarlock.enqueue_child(1, 0, '', 0, n, 1, 'plain', detached => true) FROM generate_series(3, 4) n`,
		`SELECT oarlock.cancel(1), oarlock.rerun(1), oarlock.rerun(1)`,
	}
	before := time.Now().Add(-time.Minute) // the clock of the server may differ
	for _, way := range ways {
		must(t, b.conn, way)
	}
	uids := b.list(t, "SELECT uid::text FROM oarlock.runs ORDER BY uid")
	if want := 2*len(ways) - 2; len(uids) != want || len(slices.Compact(uids)) != want {
		t.Errorf("%d runs have %d ids, want %d", len(uids), len(slices.Compact(uids)), want)
	}
	for _, uid := range uids {
		if !version7.MatchString(uid) {
			t.Errorf("%s is no UUID of version 7", uid)
		}
	}
	made := get[int64](t, b.conn, "SELECT ('x' || left(replace(uid::text, '-', ''), 12))::bit(48)::bigint FROM oarlock.runs WHERE run_id = 1")
	if at := time.UnixMilli(made); at.Before(before) || at.After(time.Now().Add(time.Minute)) {
		t.Errorf("it says that it was made at %v", at)
	}
}

func TestUID_NeverChanges(t *testing.T) {
	t.Parallel()
	b := api(t)
	run := get[int64](t, b.conn, `SELECT oarlock.enqueue('report', '{"day": "x"}')`)
	uid := get[string](t, b.conn, "SELECT uid::text FROM oarlock.runs WHERE run_id = $1", run)
	wantCode(t, b.conn, "OA011", "UPDATE oarlock.runs SET uid = gen_random_uuid() WHERE run_id = $1", run)
	must(t, b.conn, "SELECT oarlock.cancel($1), oarlock.retry($1)", run)
	const shown = "SELECT concat_ws(' ', r.uid, (SELECT min(t.run_uid::text) FROM oarlock.task_status($1) t), (SELECT l.uid FROM oarlock.run_list() l)) FROM oarlock.run_status($1) r"
	if got := get[string](t, b.conn, shown, run); got != uid+" "+uid+" "+uid {
		t.Errorf("after a retry run_status, task_status and run_list show %s, not %s", got, uid)
	}
}
