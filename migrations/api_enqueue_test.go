package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestEnqueue_TakesEveryFormOfInsert(t *testing.T) {
	t.Parallel()
	b := api(t)
	one := get[int64](t, b.conn, `INSERT INTO oarlock.inbox (dag, params, labels) VALUES ('report', '{"day": "1"}', '{"team": "sales", "x": "y"}') RETURNING run_id`)
	if got := get[string](t, b.conn, "SELECT labels::text FROM oarlock.runs WHERE run_id = $1", one); got != `{"x": "y", "team": "sales"}` {
		t.Errorf("labels are %s: the DAG's, and the run's own win", got)
	}
	must(t, b.conn, `INSERT INTO oarlock.inbox (dag, params) VALUES ('report', '{"day": "2"}'), ('report', '{"day": "3"}')`)
	must(t, b.conn, `INSERT INTO oarlock.inbox (dag, params) SELECT 'report', jsonb_build_object('day', n::text) FROM generate_series(4, 5) n`)
	rows := pgx.CopyFromRows([][]any{{"report", map[string]any{"day": "6"}}, {"report", map[string]any{"day": "7"}}})
	if _, err := b.conn.CopyFrom(t.Context(), pgx.Identifier{"oarlock", "inbox"}, []string{"dag", "params"}, rows); err != nil {
		t.Fatal(err)
	}
	must(t, b.conn, `SELECT oarlock.enqueue_many('report', ARRAY['{"day": "8"}', '{"day": "9"}']::jsonb[])`)
	must(t, b.conn, `SELECT oarlock.enqueue(dag => 'report', params => '{"day": "10"}')`)
	if got := b.list(t, "SELECT params ->> 'day' FROM oarlock.runs WHERE state = 'queued' AND root_id = run_id ORDER BY run_id"); strings.Join(got, " ") != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("runs %v", got)
	}
	for column, value := range map[string]string{
		"run_id": "7", "state": "'succeeded'", "reason": "'mine'", "submitted_by": "'eve'", "created_at": "now()", "started_at": "now()", "finished_at": "now()",
	} {
		wantCode(t, b.conn, "OA013", fmt.Sprintf(`INSERT INTO oarlock.inbox (dag, params, %s) VALUES ('report', '{"day": "1"}', %s)`, column, value))
	}
	wantCode(t, b.conn, "", `INSERT INTO oarlock.inbox (dag) SELECT 'report' WHERE false`)
}

func TestInbox_OnConflictChangesNothing(t *testing.T) {
	t.Parallel()
	b := api(t)
	const insert = `INSERT INTO oarlock.inbox (dag, params, run_key) VALUES ('report', '{"day": "1"}', $1) ON CONFLICT DO NOTHING RETURNING run_id`
	if first, second := get[int64](t, b.conn, insert, nil), get[int64](t, b.conn, insert, nil); first == second {
		t.Error("two inserts without a run_key give the same run")
	}
	if first, second := get[int64](t, b.conn, insert, "k"), get[int64](t, b.conn, insert, "k"); first != second {
		t.Error("two inserts with the same run_key give different runs")
	}
	if state := get[*string](t, b.conn, `INSERT INTO oarlock.inbox (dag, params) VALUES ('report', '{"day": "1"}') RETURNING state`); state != nil {
		t.Errorf("RETURNING gives state %q: correct the comment on oarlock.inbox", *state)
	}
}

func TestEnqueue_LivesAndDiesWithTheCallersTransaction(t *testing.T) {
	t.Parallel()
	b := api(t)
	for _, form := range []string{`INSERT INTO oarlock.inbox (dag, params) VALUES ('report', '{"day": "x"}')`, `SELECT oarlock.enqueue('report', '{"day": "x"}', run_key => 'k')`} {
		tx, err := b.conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		must(t, tx, form)
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs, oarlock.run_keys"); n != 0 {
		t.Errorf("%d runs of a transaction that was rolled back", n)
	}
}

func TestEnqueue_TheSameKeyAndContentIsTheSameRun(t *testing.T) {
	t.Parallel()
	b := api(t)
	const first = `SELECT oarlock.enqueue('report', '{"day": "x", "n": 1}', run_key => 'k')`
	run := get[int64](t, b.conn, first)
	for _, same := range []string{
		first,
		`SELECT oarlock.enqueue('report', '{"n": 1, "day": "x"}', run_key => 'k', labels => '{"a": "b"}', run_at => now() + interval '1 day')`,
		`INSERT INTO oarlock.inbox (dag, params, run_key) VALUES ('report', '{"day": "x", "n": 1}', 'k') RETURNING run_id`,
		`SELECT oarlock.enqueue_many('report', ARRAY['{"day": "x", "n": 1}']::jsonb[], ARRAY['k'])`,
	} {
		if got := get[int64](t, b.conn, same); got != run {
			t.Errorf("%s: run %d, want %d", same, got, run)
		}
	}
	for _, other := range []string{
		`SELECT oarlock.enqueue('report', '{"day": "y", "n": 1}', run_key => 'k')`,
		`SELECT oarlock.enqueue('report', '{"day": "x", "n": 1}', run_key => 'k', priority => -1)`,
		`SELECT oarlock.enqueue('report', '{"day": "x", "n": 1}', run_key => 'k', version => 1)`,
		`SELECT oarlock.enqueue('report', '{"day": "x", "n": 1}', run_key => 'k', logical_at => '2026-11-20Z')`,
		`SELECT oarlock.enqueue_many('report', ARRAY['{"day": "z"}', '{"day": "y"}']::jsonb[], ARRAY['fresh', 'k'])`,
	} {
		wantCode(t, b.conn, "OA004", other)
	}
	must(t, b.conn, "SELECT oarlock.set_dag('report', removed => true)")
	if got := get[int64](t, b.conn, first); got != run {
		t.Errorf("an accepted request was answered with run %d after the DAG was removed, want %d", got, run)
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs"); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestEnqueueMany_FindsTheRunsOfItsKeys(t *testing.T) {
	t.Parallel()
	b := api(t)
	ids := b.list(t, `SELECT oarlock.enqueue_many('report', ARRAY['{"day": "1"}', '{"day": "1"}', '{"day": "2"}', '{"day": "3"}']::jsonb[], ARRAY['a', 'a', NULL, 'b'])::text`)
	again := b.list(t, `SELECT oarlock.enqueue_many('report', ARRAY['{"day": "3"}', '{"day": "1"}', '{"day": "4"}']::jsonb[], ARRAY['b', 'a', 'c'])::text`)
	if ids[0] != ids[1] || again[0] != ids[3] || again[1] != ids[0] {
		t.Errorf("first %v, then %v", ids, again)
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs"); n != 4 {
		t.Errorf("%d runs, want 4", n)
	}
	wantCode(t, b.conn, "OA013", `SELECT oarlock.enqueue_many('report', ARRAY['{"day": "3"}']::jsonb[], ARRAY['b', 'a'])`)
	wantCode(t, b.conn, "OA013", `SELECT oarlock.enqueue_many('report', ARRAY[ARRAY['{"day": "3"}'], ARRAY['{"day": "4"}']]::jsonb[])`)
	wantCode(t, b.conn, "OA013", `SELECT oarlock.enqueue_many('report', ARRAY['{"day": "3"}', '{"day": "4"}']::jsonb[], ARRAY[ARRAY['b', 'a']])`)
	wantCode(t, b.conn, "OA003", `SELECT oarlock.enqueue_many('report', ARRAY['{"day": "3"}', NULL]::jsonb[])`)
	wantCode(t, b.conn, "", `SELECT oarlock.enqueue_many('report', '{}')`)
}

// A repeat only finds keys, which costs less than taking them, by a factor that does not depend on how many keys there are.
func TestEnqueueMany_ARepeatTakesNoLongerThanTheFirst(t *testing.T) {
	t.Parallel()
	b := api(t)
	const rows = 40_000
	call := func() time.Duration {
		start := time.Now()
		if n := get[int](t, b.conn, `SELECT count(*) FROM (SELECT oarlock.enqueue_many('report', array_agg('{"day": "x"}'::jsonb), array_agg('k' || n))
			FROM generate_series(1, $1::int) n) ids`, rows); n != rows {
			t.Fatalf("%d numbers", n)
		}
		return time.Since(start)
	}
	first := call()
	again := min(call(), call())
	t.Logf("%d runs: %v, repeated: %v", rows, first, again)
	if 2*again > 3*first {
		t.Errorf("%d runs: %v, repeated: %v", rows, first, again)
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs"); n != rows {
		t.Errorf("%d runs", n)
	}
}

func TestEnqueue_ConcurrentUsersOfAKeyGetOneRun(t *testing.T) {
	t.Parallel()
	b := api(t)
	const sessions, keys = 4, 20
	got := make([][]int64, sessions)
	var group sync.WaitGroup
	for s := range sessions {
		conn := connect(t, b.url)
		group.Go(func() {
			for k := range keys {
				var run int64
				err := conn.QueryRow(t.Context(), `SELECT oarlock.enqueue('report', '{"day": "x"}', run_key => $1)`, fmt.Sprint("k", k)).Scan(&run)
				if err != nil {
					t.Error(err)
				}
				got[s] = append(got[s], run)
			}
		})
	}
	group.Wait()
	for s := range got {
		if !equal(ints(got[s]), ints(got[0])) {
			t.Errorf("session %d got %v, session 0 %v", s, got[s], got[0])
		}
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs"); n != keys {
		t.Errorf("%d runs for %d keys", n, keys)
	}
}

func ints(list []int64) []string { return strings.Fields(strings.Trim(fmt.Sprint(list), "[]")) }

// Another transaction has taken the key and not committed. READ COMMITTED waits and finds the run, or takes the key over. A
// transaction with an older snapshot gets a serialization failure of Postgres, and is repeated as a whole.
func TestEnqueue_WaitsForAnUncommittedKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ isolation, end, want string }{
		{"READ COMMITTED", "COMMIT", ""},
		{"READ COMMITTED", "ROLLBACK", ""},
		{"REPEATABLE READ", "COMMIT", "40001"},
		{"REPEATABLE READ", "ROLLBACK", ""},
		{"SERIALIZABLE", "COMMIT", "40001"},
		{"SERIALIZABLE", "ROLLBACK", ""},
	} {
		t.Run(c.isolation+" "+c.end, func(t *testing.T) {
			t.Parallel()
			b := api(t)
			other := connect(t, b.url)
			const statement = `SELECT oarlock.enqueue('report', '{"day": "x"}', run_key => 'k')`
			must(t, other, "BEGIN")
			first := get[int64](t, other, statement)
			must(t, b.conn, "BEGIN ISOLATION LEVEL "+c.isolation)
			must(t, b.conn, "SELECT count(*) FROM oarlock.runs") // takes the snapshot
			pid := b.conn.PgConn().PID()
			result := make(chan error, 1)
			var run int64
			go func() { result <- b.conn.QueryRow(t.Context(), statement).Scan(&run) }()
			watcher := connect(t, b.url)
			for get[int](t, watcher, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'", int(pid)) == 0 {
				if len(result) > 0 {
					t.Fatal("did not wait")
				}
			}
			must(t, other, c.end)
			err := <-result
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			if err != nil || (run == first) != (c.end == "COMMIT") {
				t.Errorf("run %d after %d, %v", run, first, err)
			}
		})
	}
}

func TestEnqueue_WhatTheDAGSaysIsACeiling(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	b.put(t, `{"name": "open", "allow": {"queue": true, "priority": true, "selector": true}, "steps": [{"id": "a", "run": "true"}]}`)
	must(t, b.conn, "SELECT oarlock.set_queue('other')")
	app := b.user(t, "app", "oarlock_submit")
	for _, c := range []struct{ who, code, args string }{
		{"app", "", `'report', '{"day": "x"}', priority => -7`},
		{"app", "", `'report', '{"day": "x"}', priority => 0, queue => 'default', selector => '{}'`},
		{"app", "OA005", `'report', '{"day": "x"}', priority => 1`},
		{"app", "OA005", `'report', '{"day": "x"}', queue => 'other'`},
		{"app", "OA005", `'report', '{"day": "x"}', selector => '{"gpu": "true"}'`},
		{"app", "OA005", `'report', '{"day": "x"}', precomputed => '{"load": {"exit_code": 0}}'`},
		{"app", "", `'report', '{"day": "x"}', precomputed => '{"extract": {"exit_code": 0}}'`},
		{"app", "OA013", `'report', '{"day": "x"}', precomputed => '[]'`},
		{"app", "", `'open', priority => 100, queue => 'other', selector => '{"gpu": "true"}'`},
		{"app", "OA013", `'open', priority => 101`},
		{"app", "OA013", `'open', queue => 'nowhere'`},
		{"app", "OA013", `'open', selector => '{"gpu": true}'`},
		{"app", "OA012", `'open', selector => '{"gpu": "` + strings.Repeat("x", 501) + `"}'`},
		{"admin", "", `'report', '{"day": "x"}', priority => 50, queue => 'other', selector => '{"gpu": "true"}'`},
	} {
		db := app
		if c.who == "admin" {
			db = b.conn
		}
		wantCode(t, db, c.code, "SELECT oarlock.enqueue("+c.args+")")
	}
	if got := b.list(t, "SELECT DISTINCT concat_ws(' ', l.queue, l.priority, l.selector) FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) ORDER BY 1"); strings.Join(got, "; ") !=
		`default -7 {}; default 0 {}; other 100 {"gpu": "true"}; other 50 {"gpu": "true"}` {
		t.Errorf("lanes %q", got)
	}
}

func TestEnqueue_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	b := api(t)
	must(t, b.conn, `SELECT oarlock.put_dag('{"name": "old", "steps": [{"id": "a"}]}', '', 'h', '{}')`)
	must(t, b.conn, "SELECT oarlock.set_dag('old', removed => true)")
	for args, code := range map[string]string{
		`'nope'`:                                 "OA001",
		`NULL`:                                   "OA013",
		`''`:                                     "OA013",
		`'report', '{"day": "x"}', version => 7`: "OA001",
		`'old'`:                                  "OA002",
		`'report', '{"day": "x"}', run_key => ''`:                                                                   "OA012",
		`'report', '{"day": "x"}', run_key => repeat('k', 201)`:                                                     "OA012",
		`'report', '{"day": "x"}', run_key => 'oarlock:child:1'`:                                                    "OA013",
		`'report', '{"day": "x"}', run_at => 'infinity'`:                                                            "OA013",
		`'report', '{"day": "x"}', logical_at => '-infinity'`:                                                       "OA013",
		`'report', '{"day": "x"}', labels => '{"a": 1}'`:                                                            "OA013",
		`'report', '{"day": "x"}', labels => '[]'`:                                                                  "OA013",
		`'report', '{"day": "x"}', labels => jsonb_build_object('a', repeat('x', 501))`:                             "OA012",
		`'report', '{"day": "x"}', traceparent => repeat('x', 257)`:                                                 "OA012",
		`'report', '{"day": "x"}', trigger => 'schedule'`:                                                           "OA013",
		`'report', jsonb_build_object('day', repeat('x', 1100000))`:                                                 "OA012",
		`'report', '[{"day": "x"}]'`:                                                                                "OA003",
		`'report', '{"day": "\u0000"}'`:                                                                             "22P05",
		`'report', '{"day": "x"}', precomputed => jsonb_build_object('extract', repeat('x', 1100000))`:              "OA012",
		`'report', '{"day": "x"}', run_at => '1970-01-01Z', logical_at => '1970-01-01Z', traceparent => '00-ab-01'`: "",
	} {
		wantCode(t, b.conn, code, "SELECT oarlock.enqueue("+args+")")
	}
	if get[bool](t, b.conn, "SELECT run_at < now() - interval '1 hour' FROM oarlock.runs") {
		t.Error("a run_at in the past lets a run overtake")
	}
}

func TestEnqueue_AFullQueueRefuses(t *testing.T) {
	t.Parallel()
	b := api(t)
	must(t, b.conn, "SELECT oarlock.set_queue('default', max_queued => 3)")
	wantCode(t, b.conn, "OA006", `SELECT oarlock.enqueue_many('report', array_fill('{"day": "x"}'::jsonb, '{4}'))`)
	wantCode(t, b.conn, "", `INSERT INTO oarlock.inbox (dag, params) SELECT 'report', '{"day": "x"}' FROM generate_series(1, 2)`)
	wantCode(t, b.conn, "OA006", `INSERT INTO oarlock.inbox (dag, params) SELECT 'report', '{"day": "x"}' FROM generate_series(1, 2)`)
	wantCode(t, b.conn, "", `SELECT oarlock.enqueue('report', '{"day": "x"}', priority => -1, run_key => 'last')`)
	wantCode(t, b.conn, "OA006", `SELECT oarlock.enqueue('report', '{"day": "x"}')`)
	wantCode(t, b.conn, "", `SELECT oarlock.enqueue('report', '{"day": "x"}', priority => -1, run_key => 'last')`)
	must(t, b.conn, "SELECT oarlock.set_queue('default', max_queued => 0)")
	wantCode(t, b.conn, "", `SELECT oarlock.enqueue('report', '{"day": "x"}')`)
}

// Each lane costs every claim, so their number is bounded. The lanes of one DAG must not use up the number of others.
func TestEnqueue_SubmittersOfADAGMakeABoundedNumberOfLanes(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	const open = `{"name": "%s", "allow": {"selector": true}, "steps": [{"id": "a", "run": "true"}]}`
	b.put(t, fmt.Sprintf(open, "open"))
	b.put(t, fmt.Sprintf(open, "other"))
	app, worker := b.user(t, "app", "oarlock_submit"), b.user(t, "worker", "oarlock_worker")
	const ask = "SELECT oarlock.enqueue($1, selector => jsonb_build_object('n', $2::int::text))"
	for n := range 250 {
		must(t, app, ask, "open", n)
	}
	wantCode(t, app, "OA015", ask, "open", 250)
	wantCode(t, app, "OA015", "SELECT oarlock.enqueue_many('open', ARRAY['{}', '{}']::jsonb[], selector => '{\"n\": \"250\"}')")
	wantCode(t, app, "OA015", "INSERT INTO oarlock.inbox (dag, priority) VALUES ('open', -7)")
	wantCode(t, app, "", ask, "open", 99)
	wantCode(t, app, "", "SELECT oarlock.enqueue('open')")
	wantCode(t, app, "", ask, "other", 250)
	wantCode(t, app, "OA015", ask, "open", 251) // lanes of the other DAG do not count, and do not serve this one
	wantCode(t, worker, "", ask, "open", 252)
	wantCode(t, b.conn, "", "SELECT oarlock.set_dag('open', paused => true)")
	wantCode(t, app, "", ask, "open", 98)
	wantCode(t, b.conn, "", "SELECT oarlock.set_aside(ARRAY(SELECT lane_id FROM oarlock.lanes), 100)")
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) JOIN oarlock.dags d ON d.dag_id = r.dag_id WHERE d.name = 'open' AND l.dag_id = 0"); n != 0 {
		t.Errorf("%d runs of a paused DAG are among others", n)
	}
	wantCode(t, b.conn, "", "SELECT oarlock.put_dag('{\"name\": \"next\", \"steps\": [{\"id\": \"a\"}]}', '', 'h', '{http}')")
}

// Runs of one future moment begin within the tenth of a second after it, in the order of their requests.
func TestEnqueue_OrdersRunsOfOneMoment(t *testing.T) {
	t.Parallel()
	b := api(t)
	const at = "date_trunc('day', now() + interval '2 days')"
	must(t, b.conn, "SELECT setval('oarlock.runs_run_id_seq', 1996)")
	for range 6 { // beyond a multiple of 1,000
		must(t, b.conn, `SELECT oarlock.enqueue('report', '{"day": "x"}', run_at => `+at+`)`)
		must(t, b.conn, `SELECT oarlock.enqueue('report', '{"day": "x"}', priority => 0, labels => jsonb_build_object('long', repeat('x', 100)), run_at => `+at+`)`)
		must(t, b.conn, `SELECT oarlock.enqueue_many('report', array_fill('{"day": "x"}'::jsonb, ARRAY[3]), run_at => `+at+`)`)
	}
	if ids := b.list(t, "SELECT run_id::text FROM oarlock.runs ORDER BY ready_at, run_id"); !slices.IsSorted(ids) || len(ids) != 30 {
		t.Errorf("%d runs begin in the order %v", len(ids), ids)
	}
	must(t, b.conn, "SELECT setval('oarlock.runs_run_id_seq', 99990)")
	must(t, b.conn, `SELECT oarlock.enqueue_many('report', array_fill('{"day": "x"}'::jsonb, ARRAY[20]), run_at => `+at+`)`)
	const outside = "SELECT count(*) FROM oarlock.runs WHERE ready_at < run_at OR ready_at >= run_at + interval '100 milliseconds'"
	if n := get[int](t, b.conn, outside); n != 0 {
		t.Errorf("%d runs begin before their time, or more than a tenth of a second after it", n)
	}
}

// A run that is retried gets a place of the same kind, and one that is due already is due at once.
func TestRetry_SpreadsRunsOfOneMoment(t *testing.T) {
	t.Parallel()
	b := api(t)
	must(t, b.conn, "SELECT setval('oarlock.runs_run_id_seq', 99990)")
	must(t, b.conn, `SELECT oarlock.enqueue_many('report', array_fill('{"day": "x"}'::jsonb, ARRAY[8]))`)
	const end = "UPDATE oarlock.runs SET state = 'failed', epoch = 1, started_at = now(), finished_at = now()"
	const retry = "SELECT oarlock.retry(r.run_id) FROM oarlock.runs r ORDER BY r.run_id"
	must(t, b.conn, end)
	must(t, b.conn, retry) // mostly within a tenth of a second
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs WHERE ready_at < run_at OR ready_at > clock_timestamp()"); n != 0 {
		t.Errorf("%d runs are not due at once", n)
	}
	must(t, b.conn, "UPDATE oarlock.runs SET run_at = run_at - interval '1 hour'")
	must(t, b.conn, end)
	must(t, b.conn, retry)
	if got := b.list(t, "SELECT extract(microseconds FROM ready_at - run_at)::int::text FROM oarlock.runs ORDER BY run_id"); !equal(got, []string{"99991", "99992", "99993", "99994", "99995", "99996", "99997", "99998"}) {
		t.Errorf("they begin %v µs after their time", got)
	}
	must(t, b.conn, end)
	for _, place := range []string{"run_at - interval '1 microsecond'", "run_at + interval '100 milliseconds'", "NULL"} {
		wantCode(t, b.conn, "OA010", "UPDATE oarlock.runs SET generation = generation + 1, state = 'queued', losses = 0, inbox = inbox + 1, stage = 2, ready_at = "+place+", started_at = NULL, finished_at = NULL")
	}
}
