package migrations_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func answer(t *testing.T, db querier, call string, args ...any) string {
	t.Helper()
	return get[string](t, db, "SELECT concat_ws(' ', coalesce(outcome, 'open'), state, message) FROM oarlock."+call, args...)
}

// The columns are: events of the run before, the call, the answer, and the run after it.
func TestControls_OfRunsInEveryState(t *testing.T) {
	t.Parallel()
	b := api(t)
	for _, c := range []struct{ before, call, answer, after string }{
		{"queued", "pause($1)", "open queued", "queued generation 1 inbox 1"},
		{"queued", "retry($1)", "refused queued run * is queued: name the step to repeat (oarlock retry * --step STEP), retry the run when it has ended, or cancel it", "queued generation 1 inbox 0"},
		{"queued", "retry($1, 'step', 'load')", "refused queued run * has not started: there is nothing to repeat", "queued generation 1 inbox 0"},
		{"queued", "cancel($1, 'load')", "open queued", "queued generation 1 inbox 1"},
		{"running", "cancel($1)", "accepted running", "running generation 1 inbox 1"},
		{"running", "cancel($1, now => true)", "accepted running", "running generation 1 inbox 1"},
		{"running", "pause($1, 'load')", "open running", "running generation 1 inbox 1"},
		{"running", "approve($1, 'confirm')", "open running", "running generation 1 inbox 1"},
		{"running", "retry($1)", "refused running run * is running: name the step to repeat (oarlock retry * --step STEP), retry the run when it has ended, or cancel it", "running generation 1 inbox 0"},
		{"running", "retry($1, 'step', 'load')", "open running", "running generation 1 inbox 1"},
		{"waiting", "retry($1, 'from', 'load')", "open queued", "queued generation 1 inbox 1"},
		{"waiting", "cancel($1)", "accepted queued ends when a worker takes it: @exit is to run first", "queued generation 1 inbox 1"},
		{"waiting", "cancel($1, now => true)", "applied canceled", "canceled generation 1 inbox 1"},
		{"paused", "cancel($1, now => true)", "applied canceled", "canceled generation 1 inbox 1"},
		{"waiting", "reject($1, 'confirm', reason => 'no')", "open queued", "queued generation 1 inbox 1"},
		{"waiting", "mark($1, 'confirm', 'succeeded', outputs => '{\"a\": \"b\"}')", "open queued", "queued generation 1 inbox 1"},
		{"paused", "resume($1)", "open queued", "queued generation 1 inbox 1"},
		{"queued again", "cancel($1)", "accepted queued ends when a worker takes it: @exit is to run first", "queued generation 1 inbox 1"},
		{"queued again", "cancel($1, now => true)", "applied canceled", "canceled generation 1 inbox 1"},
		{"succeeded", "cancel($1)", "refused succeeded run * is succeeded already", "succeeded generation 1 inbox 0"},
		{"failed", "pause($1)", "refused failed run * is failed already: retry it", "failed generation 1 inbox 0"},
		{"failed", "retry($1)", "open queued", "queued generation 2 inbox 1"},
		{"failed", "retry($1, 'from', 'load')", "open queued", "queued generation 2 inbox 1"},
		{"canceled", "retry($1, 'all')", "open queued", "queued generation 2 inbox 1"},
	} {
		t.Run(c.before+" "+c.call, func(t *testing.T) {
			run := enqueue(t, b.conn)
			if c.before != "queued" {
				b.claim(t, run)
			}
			if c.before != "queued" && c.before != "running" {
				b.leave(t, run, strings.TrimSuffix(c.before, " again"))
			}
			got := answer(t, b.conn, c.call, run)
			if want := strings.ReplaceAll(c.answer, "*", ints([]int64{run})[0]); got != want {
				t.Errorf("answer %q, want %q", got, want)
			}
			if after := b.state(t, run); after != c.after {
				t.Errorf("run %q, want %q", after, c.after)
			}
		})
	}
}

// The core decides the same of a run that a driver holds (dagrun/retry.go), but a driver comes once the run is open again.
func TestRetry_ThatResetsNothingLeavesTheRun(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "wide", "steps": [{"id": "each", "run": "x", "foreach": {"items": ["x", "y"]}},
		{"id": "swap", "run": "x", "on_error": [{"do": "replace", "with": [{"run": "y"}, {"run": "z"}]}]}], "handler_on": {"exit": {"run": "x"}}}`)
	must(t, b.conn, "CREATE TEMP TABLE draft (LIKE oarlock.tasks INCLUDING DEFAULTS)")
	const nothing, done = "refused failed there is nothing to repeat: no task failed or was canceled", "open queued"
	for name, c := range map[string]struct{ change, call, answer string }{
		"all is well":                    {"", "retry($1)", nothing},
		"the rest is history":            {"UPDATE draft SET state = 'failed', generation = 1 WHERE item <> '' OR alt > 0; UPDATE draft SET state = 'succeeded', grown = NULL WHERE step < 2 AND item = '' AND alt = 0", "retry($1)", nothing},
		"a tolerated failure":            {"UPDATE draft SET state = 'failed', tolerated = true WHERE item = 'x'", "retry($1)", nothing},
		"a handler that was left out":    {"UPDATE draft SET state = 'skipped' WHERE step = 2", "retry($1)", nothing},
		"an item failed":                 {"UPDATE draft SET state = 'failed' WHERE item = 'x'", "retry($1)", done},
		"a replacement was canceled":     {"UPDATE draft SET state = 'canceled' WHERE alt = 2", "retry($1)", done},
		"a replacement that never began": {"UPDATE draft SET alt = 7, generation = 1 WHERE alt = 2", "retry($1)", done},
		"an item that never began":       {"UPDATE draft SET state = 'canceled' WHERE step = 0 AND item = ''; DELETE FROM draft WHERE item = 'y'", "retry($1)", done},
		"an item of the former list":     {"UPDATE draft SET generation = 1 WHERE item = 'y'", "retry($1)", done},
		"a parent failed":                {"UPDATE draft SET state = 'upstream_failed', grown = NULL WHERE step = 0 AND item = ''", "retry($1)", done},
		"only a handler failed":          {"UPDATE draft SET state = 'failed' WHERE step = 2", "retry($1)", done},
		"a step never began":             {"DELETE FROM draft WHERE step = 1", "retry($1)", done},
		"everything":                     {"", "retry($1, 'all')", done},
		"one step":                       {"", "retry($1, 'step', 'swap')", done},
		"a replaced step":                {"", "retry($1, 'from', 'swap~1')", done},
		"one item":                       {"", "retry($1, 'from', 'each', 'y')", done},
		"no such item":                   {"", "retry($1, 'from', 'each', 'z')", "refused failed step each has no item z"},
		"an item of no list":             {"", "retry($1, 'step', 'swap', 'x')", "refused failed step swap has no item x"},
		"a handler":                      {"", "retry($1, 'step', '@exit')", "refused failed a handler cannot be repeated alone: retry the run"},
	} {
		t.Run(name, func(t *testing.T) {
			run := get[int64](t, b.conn, "SELECT oarlock.enqueue('wide')")
			b.claim(t, run)
			must(t, b.conn, "TRUNCATE draft")
			must(t, b.conn, `INSERT INTO draft (run_id, step, item, alt, state, attempt, generation, epoch, seq, grown) VALUES
				($1, 0, '', 0, 'succeeded', 0, 2, 1, 1, '{"generation": 2, "items": [{"key": "x", "value": "x"}, {"key": "y", "value": "y"}]}'),
				($1, 0, 'x', 0, 'succeeded', 1, 2, 1, 2, NULL), ($1, 0, 'y', 0, 'skipped', 1, 2, 1, 3, NULL),
				($1, 1, '', 0, 'replaced', 1, 2, 1, 4, '{"generation": 2, "rule": 0, "first_alt": 1, "count": 2}'),
				($1, 1, '', 1, 'succeeded', 1, 2, 1, 5, NULL), ($1, 1, '', 2, 'succeeded', 1, 2, 1, 6, NULL), ($1, 2, '', 0, 'succeeded', 1, 2, 1, 7, NULL)`, run)
			must(t, b.conn, "UPDATE oarlock.runs SET generation = 2 WHERE run_id = $1", run)
			if c.change != "" {
				must(t, b.conn, c.change)
			}
			must(t, b.conn, "INSERT INTO oarlock.tasks TABLE draft")
			b.leave(t, run, "failed")
			row := func() string {
				return get[string](t, b.conn, "SELECT r::text FROM oarlock.runs r WHERE run_id = $1", run)
			}
			before := row()
			if got := answer(t, b.conn, c.call, run); got != c.answer {
				t.Errorf("answer %q, want %q", got, c.answer)
			}
			if kept := row() == before; kept == (c.answer == done) {
				t.Errorf("run %q", b.state(t, run))
			}
		})
	}
}

func TestControls_WakeTheOwnerOrWhoeverIsHungry(t *testing.T) {
	t.Parallel()
	b := api(t)
	claimed, parked := enqueue(t, b.conn), enqueue(t, b.conn)
	b.claim(t, claimed)
	b.claim(t, parked)
	b.leave(t, parked, "waiting")
	must(t, b.conn, "UPDATE oarlock.workers SET hungry = 2 WHERE name = 'w' || $1::bigint", parked)
	must(t, b.conn, "LISTEN oarlock_test_1")
	must(t, b.conn, "LISTEN oarlock_test_2")
	lane := get[int64](t, b.conn, "SELECT lane_id FROM oarlock.runs WHERE run_id = $1", parked)
	for _, c := range []struct{ statement, channel, payload string }{
		{"SELECT oarlock.cancel(1)", "oarlock_test_1", "run:1"},
		{"SELECT oarlock.cancel(2)", "oarlock_test_2", fmt.Sprintf("lane:%d:1:", lane)},
		{`SELECT oarlock.enqueue('report', '{"day": "x"}')`, "oarlock_test_2", fmt.Sprintf("lane:%d:1:", lane)},
		{`INSERT INTO oarlock.inbox (dag, params) SELECT 'report', '{"day": "x"}' FROM generate_series(1, 5)`, "oarlock_test_2", fmt.Sprintf("lane:%d:5:", lane)},
		{`SELECT oarlock.enqueue_many('report', ARRAY['{"day": "x"}']::jsonb[])`, "oarlock_test_2", fmt.Sprintf("lane:%d:1:", lane)},
	} {
		must(t, b.conn, c.statement)
		n, err := b.conn.WaitForNotification(t.Context())
		if err != nil || n.Channel != c.channel || !strings.HasPrefix(n.Payload, c.payload) {
			t.Errorf("%s: heard %v, %v, want %s %s", c.statement, n, err, c.channel, c.payload)
		}
	}
}

// One row wakes one worker, and that worker must be able to serve the row.
func TestWake_TellsOnlyThoseWhoMayServeTheLane(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "picky", "queue": "far", "worker_selector": {"gpu": "1"}, "steps": [{"id": "a", "run": "true"}]}`)
	for range 6 {
		b.claim(t, enqueue(t, b.conn))
	}
	must(t, b.conn, "UPDATE oarlock.workers SET hungry = 9, labels = '{\"gpu\": \"1\", \"zone\": \"a\"}', queues = '{far,near}', channel = 'heard_' || name")
	for name, change := range map[string]string{
		"w1": "labels = '{\"gpu\": \"2\"}'", "w2": "labels = '{}'", "w4": "slots = 0", "w5": "queues = '{near}'",
	} {
		must(t, b.conn, "UPDATE oarlock.workers SET "+change+" WHERE name = $1", name)
	}
	must(t, b.conn, "UPDATE oarlock.worker_offers o SET offers = '{http}' FROM oarlock.workers w WHERE w.worker_id = o.worker_id AND w.name = 'w3'")
	for n := range 6 {
		must(t, b.conn, fmt.Sprintf("LISTEN heard_w%d", n+1))
	}
	for range 10 { // which worker it notifies is drawn by lot
		must(t, b.conn, "SELECT oarlock.enqueue('picky')")
		if n, err := b.conn.WaitForNotification(t.Context()); err != nil || n.Channel != "heard_w6" {
			t.Errorf("told %v, %v", n, err)
		}
	}
}

// An application locks no lane, and only the runs that it asks for, whatever its request and the settings of its transaction are.
func TestControls_LockNothingOfOthers(t *testing.T) {
	t.Parallel()
	b := api(t)
	failed, parked, other := enqueue(t, b.conn), enqueue(t, b.conn), enqueue(t, b.conn)
	for run, state := range map[int64]string{failed: "failed", parked: "waiting"} {
		b.claim(t, run)
		b.leave(t, run, state)
	}
	app := connect(t, b.url)
	must(t, app, "BEGIN")
	must(t, app, "SET CONSTRAINTS ALL IMMEDIATE")
	must(t, app, "SELECT set_config('oarlock.resets', ',' || lane_id, true), set_config('oarlock.touched', ',' || lane_id || ':1', true) FROM oarlock.lanes")
	must(t, app, "SELECT oarlock.retry($1, 'all')", failed)
	must(t, app, "SELECT oarlock.cancel($1)", parked)
	must(t, app, `SELECT oarlock.enqueue('report', '{"day": "x"}', priority => -7)`)
	must(t, app, `SELECT oarlock.enqueue_many('report', ARRAY['{"day": "x"}']::jsonb[], priority => -8)`)
	must(t, app, `INSERT INTO oarlock.inbox (dag, params, priority) VALUES ('report', '{"day": "x"}', -9)`)
	for _, table := range []string{"lanes", "queues", "dags", "dag_versions", "workers", "fences"} {
		free := get[int](t, b.conn, "WITH f AS MATERIALIZED (SELECT FROM oarlock."+table+" FOR NO KEY UPDATE SKIP LOCKED) SELECT count(*) FROM f")
		if all := get[int](t, b.conn, "SELECT count(*) FROM oarlock."+table); free != all {
			t.Errorf("it holds %d of %d rows of %s", all-free, all, table)
		}
	}
	if got := b.list(t, "SELECT run_id::text FROM oarlock.runs ORDER BY run_id FOR NO KEY UPDATE SKIP LOCKED"); !slices.Equal(got, []string{strconv.FormatInt(other, 10)}) {
		t.Errorf("of the runs %v are free, want %d", got, other)
	}
}

// A session that needs the lane which another open transaction makes gets a twin of it, and later runs go to one of both.
func TestEnqueue_ALaneThatAnOpenTransactionMakesIsMadeTwice(t *testing.T) {
	t.Parallel()
	b := api(t)
	app := connect(t, b.url)
	must(t, app, "BEGIN")
	const ask = `SELECT oarlock.enqueue('report', '{"day": "x"}', priority => -7)`
	must(t, app, ask)
	must(t, b.conn, "SET statement_timeout = '10 s'")
	for range 2 {
		must(t, b.conn, ask)
	}
	must(t, app, "COMMIT")
	must(t, b.conn, ask)
	if got := b.list(t, "SELECT twin || ' ' || count(*) FROM oarlock.runs JOIN oarlock.lanes l USING (lane_id) WHERE l.priority = -7 GROUP BY twin ORDER BY twin"); !slices.Equal(got, []string{"0 2", "1 2"}) {
		t.Errorf("runs by twin: %v", got)
	}
}

func TestEnqueue_TellsNobodyWhenNobodyIsHungry(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.claim(t, enqueue(t, b.conn))
	must(t, b.conn, "LISTEN oarlock_test_1")
	must(t, b.conn, `INSERT INTO oarlock.inbox (dag, params) SELECT 'report', '{"day": "x"}' FROM generate_series(1, 5)`)
	enqueue(t, b.conn)
	must(t, b.conn, "UPDATE oarlock.workers SET hungry = 1")
	must(t, b.conn, `SELECT oarlock.enqueue('report', '{"day": "x"}', run_at => now() + interval '1 hour')`)
	must(t, b.conn, "NOTIFY oarlock_test_1, 'end'")
	if n, err := b.conn.WaitForNotification(t.Context()); err != nil || n.Payload != "end" {
		t.Errorf("heard %v, %v", n, err)
	}
}

func TestControls_RefuseNonsense(t *testing.T) {
	t.Parallel()
	b := api(t)
	run := enqueue(t, b.conn)
	for call, code := range map[string]string{
		"cancel(7777)":                            "OA007",
		"cancel($1, 'nope')":                      "OA007",
		"pause(NULL)":                             "OA007",
		"retry($1, 'some')":                       "OA013",
		"retry($1, 'from')":                       "OA013",
		"retry($1, 'all', 'a')":                   "OA013",
		"approve($1, NULL)":                       "OA013",
		"approve($1, 'confirm', outputs => '[]')": "OA013",
		"approve($1, 'confirm', outputs => jsonb_build_object('x', repeat('x', 1100000)))": "OA012",
		"mark($1, 'load', 'done')":                             "OA013",
		"mark($1, 'load', 'failed', item => repeat('x', 201))": "OA012",
		"reject($1, '')":                                       "OA013",
		"mark($1, '@exit', 'skipped')":                         "",
		"mark($1, 'load~1', 'skipped')":                        "",
	} {
		if strings.Contains(call, "$1") {
			wantCode(t, b.conn, code, "SELECT oarlock."+call, run)
			continue
		}
		wantCode(t, b.conn, code, "SELECT oarlock."+call)
	}
}

func TestGuards_AFinishedRunOrTaskChangesNoMore(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	worker := b.user(t, "worker", "oarlock_worker")
	run := enqueue(t, b.conn)
	b.claim(t, run)
	must(t, worker, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq) VALUES ($1, 0, 'succeeded', 1, 1, 1, 5), ($1, 1, 'running', 1, 1, 1, 6),
		($1, 2, 'failed', 1, 1, 1, 7), ($1, 3, 'failed', 1, 1, 1, 8)`, run)
	for statement, code := range map[string]string{
		"UPDATE oarlock.tasks SET state = 'failed', seq = 9 WHERE step = 0":    "OA010",
		"UPDATE oarlock.tasks SET outputs = '{}' WHERE step = 0":               "OA010",
		"UPDATE oarlock.tasks SET state = 'failed', seq = 5 WHERE step = 1":    "OA011",
		"UPDATE oarlock.tasks SET epoch = 0 WHERE step = 1":                    "OA011",
		"UPDATE oarlock.tasks SET state = 'finishing', seq = 7 WHERE step = 1": "",
		"UPDATE oarlock.runs SET epoch = 0":                                    "OA011",
		"UPDATE oarlock.runs SET generation = 2":                               "42501",
		"DELETE FROM oarlock.runs":                                             "42501",
		"DELETE FROM oarlock.tasks":                                            "42501",
		"TRUNCATE oarlock.runs":                                                "42501",
		"ALTER TABLE oarlock.runs DISABLE TRIGGER ALL":                         "42501",
		"SET session_replication_role = replica":                               "42501",
	} {
		wantCode(t, worker, code, statement)
	}
	wantCode(t, b.conn, "OA011", "UPDATE oarlock.runs SET generation = 0")
	b.leave(t, run, "succeeded")
	for statement, code := range map[string]string{
		"UPDATE oarlock.runs SET state = 'failed'":                     "OA010",
		"UPDATE oarlock.runs SET reason = 'x'":                         "OA010",
		"UPDATE oarlock.runs SET state = 'queued', finished_at = NULL": "OA010",
	} {
		wantCode(t, worker, code, statement)
	}
	for _, statement := range []string{
		"UPDATE oarlock.runs SET generation = 3, state = 'queued', finished_at = NULL",
		"UPDATE oarlock.runs SET generation = 2, state = 'running', finished_at = NULL, claim_id = gen_random_uuid()",
	} {
		wantCode(t, b.conn, "OA010", statement)
		wantCode(t, worker, "42501", statement)
	}
	wantCode(t, worker, "OA010", "UPDATE oarlock.tasks SET state = 'pending', generation = 2, epoch = 2, seq = 9 WHERE step = 0")
	wantCode(t, worker, "", "SELECT oarlock.retry($1)", run)
	wantCode(t, worker, "OA010", "UPDATE oarlock.tasks SET state = 'pending', generation = 3, epoch = 2, seq = 9 WHERE step = 0")
	wantCode(t, worker, "OA010", "UPDATE oarlock.tasks SET state = 'pending', generation = 2, attempt = 0, epoch = 2, seq = 9 WHERE step = 0")
	wantCode(t, worker, "OA010", "UPDATE oarlock.tasks SET state = 'pending', generation = 2, step = 7, epoch = 2, seq = 9 WHERE step = 0")
	wantCode(t, worker, "", "UPDATE oarlock.tasks SET state = 'pending', generation = 2, epoch = 2, seq = 1 WHERE step = 0")
	// one flush ends a run and its last task; no later statement changes either
	wantCode(t, worker, "", `WITH ended AS (UPDATE oarlock.runs SET state = 'succeeded', finished_at = now() RETURNING run_id)
		UPDATE oarlock.tasks t SET state = 'succeeded', generation = 2, attempt = 2, epoch = 2, seq = 2 FROM ended WHERE t.run_id = ended.run_id AND t.step = 2`)
	wantCode(t, worker, "OA010", "UPDATE oarlock.tasks SET state = 'succeeded', generation = 2, epoch = 2, seq = 3 WHERE step = 3")
}

func TestGuards_AWorkerAddsNothingToARunThatIsOver(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	worker := b.user(t, "worker", "oarlock_worker")
	run, over := enqueue(t, b.conn), enqueue(t, b.conn)
	b.claim(t, run)
	b.claim(t, over)
	b.leave(t, over, "succeeded")
	for _, statement := range []string{
		"INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state) VALUES ($1, 0, '', 0, 1, 1, 'failed')",
		"INSERT INTO oarlock.events (run_id, kind, message) VALUES ($1, 'approved', 'by the boss')",
		"INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data) VALUES ('2026-11-20', $1, 0, '', 0, 1, 0, 1, now(), 'x')",
		"INSERT INTO oarlock.approvals_open VALUES ($1, 2, '', 0, 'Pay me?', '[]', NULL, now())",
		"INSERT INTO oarlock.approvals_open VALUES ($1, 2, '', 0, 'Pay me?', '[]', NULL, now()) ON CONFLICT (run_id, step, item, alt) DO UPDATE SET prompt = 'Pay!'",
	} {
		wantCode(t, worker, "", statement, run)
		wantCode(t, worker, "42501", statement, over)
		wantCode(t, worker, "42501", statement, 1<<40) // of which there is none
	}
	for _, statement := range []string{
		"INSERT INTO oarlock.runs (dag_id, version, lane_id, run_at, ready_at, logical_at, trigger, root_id, submitted_by) VALUES (1, 1, 1, now(), now(), now(), 'sql', 1, 'boss')",
		"INSERT INTO oarlock.run_keys (submitter, run_key, run_id, request_hash) VALUES ('boss', 'k', 1, 'x')",
		"INSERT INTO oarlock.cache (dag_id, step, key, outputs, run_id, expires_at) VALUES (1, 'load', 'k', '{}', 1, 'infinity')",
		"UPDATE oarlock.attempts SET state = 'succeeded'", "UPDATE oarlock.events SET message = ''", "UPDATE oarlock.log_chunks SET data = ''",
	} {
		wantCode(t, worker, "42501", statement)
	}
}

// Only the functions for controls insert them, under the name of the asking user, and a decided control does not change.
func TestGuards_AWorkerMakesUpNoControl(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	worker := b.user(t, "worker", "oarlock_worker")
	run := enqueue(t, b.conn)
	b.claim(t, run)
	id := get[int64](t, b.conn, "SELECT id FROM oarlock.pause($1)", run)
	for _, c := range []struct{ code, statement string }{
		{"42501", "INSERT INTO oarlock.controls (run_id, verb, by, decided_at, outcome) SELECT run_id, 'approve', 'admin', now(), 'applied' FROM oarlock.runs"},
		{"42501", "UPDATE oarlock.controls SET by = 'admin'"},
		{"42501", "UPDATE oarlock.controls SET verb = 'approve', args = '{}'"},
		{"42501", "DELETE FROM oarlock.controls"},
		{"", "UPDATE oarlock.controls SET decided_at = now(), outcome = 'applied', state = 'paused' WHERE decided_at IS NULL"},
		{"", "UPDATE oarlock.controls SET outcome = 'applied', state = 'paused'"}, // the same again is no change
		{"OA010", "UPDATE oarlock.controls SET outcome = 'refused', message = 'x'"},
		{"OA010", "UPDATE oarlock.controls SET decided_at = NULL, outcome = NULL"},
	} {
		wantCode(t, worker, c.code, c.statement)
	}
	if got := get[string](t, b.conn, "SELECT concat_ws(' ', verb, outcome, state, message) FROM oarlock.control_status($1)", id); got != "pause applied paused" {
		t.Errorf("the control is %q", got)
	}
}

// Opening a generation is the only change of a finished run that is not refused, and it must not carry another change with it.
func TestGuards_ARetryChangesOnlyWhatARetryChanges(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	run := get[int64](t, b.conn, `SELECT oarlock.enqueue('report', '{"day": "x"}', run_key => 'k')`)
	b.claim(t, run)
	must(t, b.conn, `UPDATE oarlock.runs SET reason = 'r', ending = 'e', ending_by = 'e', ending_text = 'e', deadline = now(), losses = 2, tolerated = 3,
		left_ms = 4, counts = '{}' WHERE run_id = $1`, run)
	b.leave(t, run, "failed")
	must(t, b.conn, `INSERT INTO oarlock.lanes (lane_id, queue, priority, selector, needs, slots) OVERRIDING SYSTEM VALUE
		SELECT 77, queue, 9, selector, needs, slots FROM oarlock.lanes LIMIT 1`) // no twin of the lane of the run
	reopen := map[string]string{
		"generation": "generation + 1", "state": "'queued'", "reason": "''", "losses": "0", "inbox": "inbox + 1", "ending": "''", "ending_by": "''",
		"ending_text": "''", "paused_by": "''", "deadline": "NULL", "left_ms": "0", "tolerated": "0", "stage": "2", "ready_at": "run_at", "started_at": "NULL", "finished_at": "NULL",
	}
	for _, column := range b.list(t, `SELECT a.attname || ' ' || format_type(a.atttypid, NULL) FROM pg_attribute a
		WHERE a.attrelid = 'oarlock.runs'::regclass AND a.attnum > 0 AND a.attidentity = '' ORDER BY a.attnum`) {
		name, kind, _ := strings.Cut(column, " ")
		hostile := maps.Clone(reopen)
		hostile[name] = map[string]string{
			"text": "'manual'", "jsonb": `'{"a": 1}'`, "uuid": "gen_random_uuid()", "timestamp with time zone": "'2020-01-01'", "bigint": "77", "integer": "77",
			"boolean": "true", "smallint": "1", "text[]": "'{x}'",
		}[kind]
		wantCode(t, b.conn, "OA010", updateRuns(hostile))
	}
	wantCode(t, b.conn, "", updateRuns(reopen))
}

func updateRuns(set map[string]string) string {
	var parts []string
	for column, value := range set {
		parts = append(parts, column+" = "+value)
	}
	return "UPDATE oarlock.runs SET " + strings.Join(parts, ", ")
}
