package migrations_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestRunStatus_SaysWhyARunWaits(t *testing.T) {
	t.Parallel()
	b := api(t)
	must(t, b.conn, "SELECT oarlock.set_queue('other')")
	run := get[int64](t, b.conn, `SELECT oarlock.enqueue('report', '{"day": "x"}', selector => '{"gpu": "true"}')`)
	reason := func() string {
		t.Helper()
		return get[string](t, b.conn, "SELECT concat_ws(': ', state, reason) FROM oarlock.run_status($1)", run)
	}
	for _, c := range []struct{ statement, want string }{
		{"", "queued: no worker is live: start one with `oarlock worker`"},
		{`WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
			VALUES (gen_random_uuid(), 'w', 'h', 'b', 1, 'v', '{}', '{other}', 8, 'none', 30000, 'c') RETURNING worker_id)
			INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{}' FROM w`, "queued: no worker serves queue default"},
		{"UPDATE oarlock.workers SET queues = '{}'", "queued: no worker offers label gpu=true"},
		{`UPDATE oarlock.workers SET labels = '{"gpu": "true"}'`, "queued: no worker offers process"},
		{"UPDATE oarlock.worker_offers SET offers = '{process}'; UPDATE oarlock.workers SET slots = 1", "queued: 1st in line in queue default; 0 of 1 slots taken"},
		{"UPDATE oarlock.lanes SET slots = 2", "queued: needs 2 slots at once, no worker has more than 1"},
		{"UPDATE oarlock.lanes SET slots = 1", "queued: 1st in line in queue default; 0 of 1 slots taken"},
		{"UPDATE oarlock.workers SET unfit = 'no space left'", "queued: worker w claims nothing: no space left"},
		{"UPDATE oarlock.workers SET unfit = ''", "queued: 1st in line in queue default; 0 of 1 slots taken"},
		{"SELECT oarlock.set_dag('report', paused => true)", "queued: dag report is paused by "},
		{"SELECT oarlock.set_queue('default', paused => true)", "queued: queue default is paused by "},
		{"SELECT oarlock.set_dag('report', paused => false), oarlock.set_queue('default', paused => false)", "queued: 1st in line in queue default; 0 of 1 slots taken"},
		{"UPDATE oarlock.runs SET run_at = '2100-01-01Z'", "scheduled: starts at 2100-01-01T00:00:00Z"},
		{"UPDATE oarlock.runs SET run_at = now(); UPDATE oarlock.workers SET state = 'draining'", "queued: no worker is live"},
	} {
		if c.statement != "" {
			must(t, b.conn, c.statement)
		}
		if got := reason(); !strings.HasPrefix(got, c.want) {
			t.Errorf("after %s: %q, want %q", c.statement, got, c.want)
		}
	}
}

func TestRunStatus_NamesTheLimitThatIsReached(t *testing.T) {
	t.Parallel()
	b := api(t)
	first, second := enqueue(t, b.conn), enqueue(t, b.conn)
	b.claim(t, first)
	for statement, want := range map[string]string{
		"SELECT oarlock.set_queue('default', max_running => 1)":                                              "queue default runs 1 of 1 at once (max_running)",
		"UPDATE oarlock.dags SET max_active_runs = 1; SELECT oarlock.set_queue('default', max_running => 0)": "dag report has 1 of 1 active runs",
	} {
		must(t, b.conn, "UPDATE oarlock.queues SET max_running = 0; UPDATE oarlock.dags SET max_active_runs = 0")
		must(t, b.conn, statement)
		if got := get[string](t, b.conn, "SELECT reason FROM oarlock.run_status($1)", second); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRunStatus_SaysThatARunWaitsForASlot(t *testing.T) {
	t.Parallel()
	b := api(t)
	run := enqueue(t, b.conn)
	b.claim(t, run)
	const taken = "running waits for a slot: 8 of 8 on worker w1 are taken"
	for _, c := range []struct{ statement, want string }{
		{"SELECT 1", "running "},
		{"UPDATE oarlock.workers SET busy = 8, waiting = 1", taken},
		{`INSERT INTO oarlock.tasks (run_id, step, item, alt, state, attempt, generation, epoch, seq) VALUES (1, 0, '', 0, 'running', 1, 1, 1, 1)`, "running "},
		{"UPDATE oarlock.tasks SET state = 'succeeded'", taken},
		{`INSERT INTO oarlock.tasks (run_id, step, item, alt, state, reason, attempt, generation, epoch, seq)
			VALUES (1, 1, '', 0, 'ready', 'waits for 2 slots at once: 7 of 8 on worker w1 are taken', 0, 1, 1, 2)`, "running waits for 2 slots at once: 7 of 8 on worker w1 are taken"},
		{"UPDATE oarlock.workers SET waiting = 0", "running "},
		{"UPDATE oarlock.runs SET state = 'queued', worker_id = NULL, claim_id = NULL, stage = 1", "queued 1st in line in queue default; 8 of 8 slots taken"},
		{"UPDATE oarlock.runs SET stage = 0", "queued 1st in line in queue default; 8 of 8 slots taken"},
	} {
		must(t, b.conn, c.statement)
		if got := get[string](t, b.conn, "SELECT state || ' ' || reason FROM oarlock.run_status($1)", run); got != c.want {
			t.Errorf("after %s: %q, want %q", c.statement, got, c.want)
		}
	}
}

func TestRunStatus_NamesTheWorkerOfOneRun(t *testing.T) {
	t.Parallel()
	b := api(t)
	run, other := enqueue(t, b.conn), enqueue(t, b.conn)
	b.claim(t, run)
	must(t, b.conn, "UPDATE oarlock.workers SET queues = '{-}', only_run = $1", run)
	reason := func(run int64) string {
		return get[string](t, b.conn, "SELECT reason FROM oarlock.run_status($1)", run)
	}
	must(t, b.conn, "UPDATE oarlock.runs SET state = 'queued', worker_id = NULL, claim_id = NULL WHERE run_id = $1", run)
	if got := reason(run); got != "waits for its worker w1" {
		t.Errorf("the run of the worker %s", got)
	}
	if got := reason(other); got != "no worker serves queue default" {
		t.Errorf("another run: %s", got)
	}
	must(t, b.conn, "UPDATE oarlock.workers SET unfit = 'no space left'")
	if got := reason(run); got != "worker w1 claims nothing: no space left" {
		t.Errorf("the run of a worker that claims nothing: %s", got)
	}
}

// Status reports a worker without signs of life long before its lease is over. It names the time of the last sign and not a
// duration: watchers would get a text that changes with every look each time.
func TestRunStatus_TellsOfAWorkerThatIsQuiet(t *testing.T) {
	t.Parallel()
	b := api(t)
	run, waiting := enqueue(t, b.conn), enqueue(t, b.conn)
	b.claim(t, run)
	must(t, b.conn, "UPDATE oarlock.workers SET ttl_ms = 300000, started_at = now() - interval '1 hour', beat = 720")
	const beat, second = "UPDATE oarlock.workers SET beat_at = clock_timestamp() - $1::interval WHERE name = 'w1'", `WITH w AS (
		INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, started_at)
		VALUES (gen_random_uuid(), 'w2', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 300000, 'c', now() - interval '1 hour') RETURNING worker_id)
		INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM w`
	stamp := func(after string) string {
		return get[string](t, b.conn, `SELECT to_char((beat_at + $1::interval) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM oarlock.workers WHERE name = 'w1'`, after)
	}
	look := func(when, wantHeld, wantQueued string) {
		t.Helper()
		const query = "SELECT reason FROM oarlock.run_status($1)"
		if quiet := get[bool](t, b.conn, "SELECT quiet FROM oarlock.run_status($1)", run); quiet != strings.HasPrefix(wantHeld, "driven by ") {
			t.Errorf("%s: quiet is %v", when, quiet)
		}
		if held, queued := get[string](t, b.conn, query, run), get[string](t, b.conn, query, waiting); held != wantHeld || queued != wantQueued {
			t.Errorf("%s:\nheld   %q\nwant   %q\nqueued %q\nwant   %q", when, held, wantHeld, queued, wantQueued)
		}
	}
	const room, start = "1st in line in queue default; 0 of 8 slots taken", "start one with `oarlock worker`"
	must(t, b.conn, beat, "4 s")
	look("a heartbeat is late", "", room)
	must(t, b.conn, beat, "40 s")
	driven, none := "driven by w1, which gives no sign of life since "+stamp("0")+"; ", "no worker that may take it gives a sign of life: w1 gave the last at "+stamp("0")+"; "+start
	look("the only worker is quiet", driven+"no other worker is there to take it over: "+start, none)
	must(t, b.conn, "UPDATE oarlock.workers SET unfit = 'no space left', unfit_since = now()")
	look("what it said last is not what is wrong", driven+"no other worker is there to take it over: "+start, none)
	must(t, b.conn, second)
	look("another watches it", driven+"others take it over about "+stamp("303 s"), room)
	must(t, b.conn, "UPDATE oarlock.workers SET started_at = (SELECT w.beat_at FROM oarlock.workers w WHERE w.name = 'w1') + interval '30 s' WHERE name = 'w2'")
	look("another has watched it for less long", driven+"others take it over about "+stamp("333 s"), room)
	must(t, b.conn, "UPDATE oarlock.workers SET unfit = 'no space left', unfit_since = now() WHERE name = 'w2'")
	look("the other one claims nothing", driven+"others take it over about "+stamp("333 s"), "worker w2 claims nothing: no space left")
	must(t, b.conn, "UPDATE oarlock.workers SET started_at = now() - interval '1 hour', unfit = ''")
	must(t, b.conn, beat, "6 min")
	look("its lease is over", "driven by w1, which gives no sign of life since "+stamp("0")+"; others take it over soon: time in which they had no database does not count", room)
	must(t, b.conn, "UPDATE oarlock.workers SET beat_at = now() - interval '6 min'")
	look("both are quiet", "driven by w1, which gives no sign of life since "+stamp("0")+"; no other worker is there to take it over: "+start,
		"no worker that may take it gives a sign of life: w1 gave the last at "+stamp("0")+"; "+start)
	must(t, b.conn, "UPDATE oarlock.workers SET state = 'lost', ended_at = now() WHERE name = 'w2'")
	must(t, b.conn, "UPDATE oarlock.runs SET state = 'queued', worker_id = NULL, claim_id = NULL WHERE run_id = $1", run)
	must(t, b.conn, "UPDATE oarlock.workers SET queues = '{-}', only_run = $1 WHERE name = 'w1'", run)
	look("the worker of one run", "waits for its worker w1, which gives no sign of life since "+stamp("0"), "no worker serves queue default")
}

func TestRunStatus_CountsWhatGoesBefore(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "picky", "worker_selector": {"gpu": "1"}, "steps": [{"id": "a", "run": "true"}]}`)
	b.put(t, `{"name": "capped", "max_active_runs": 1, "steps": [{"id": "a", "run": "true"}]}`)
	b.put(t, `{"name": "held", "steps": [{"id": "a", "run": "true"}]}`)
	b.claim(t, enqueue(t, b.conn))
	b.claim(t, get[int64](t, b.conn, "SELECT oarlock.enqueue('capped')"))
	must(t, b.conn, "SELECT oarlock.enqueue(dag) FROM unnest('{picky,picky,capped,capped,capped,held}'::text[]) dag")
	enqueue(t, b.conn)
	run := enqueue(t, b.conn)
	for _, c := range []struct{ change, want string }{
		{"SELECT", "3rd in line in queue default; 0 of 16 slots taken"}, // behind a run of dag capped and a run of dag held
		{"SELECT oarlock.set_dag('held', paused => true)", "2nd in line in queue default; 0 of 16 slots taken"},
		{"SELECT oarlock.set_dag('held', paused => false)", "3rd in line in queue default; 0 of 16 slots taken"},
		{"UPDATE oarlock.dags SET max_active_runs = 3 WHERE name = 'capped'", "5th in line in queue default; 0 of 16 slots taken"},
		{"SELECT oarlock.set_dag('capped', paused => true)", "3rd in line in queue default; 0 of 16 slots taken"},
		{`UPDATE oarlock.workers SET labels = '{"gpu": "1"}', queues = '{other}' WHERE name = 'w2'`, "3rd in line in queue default; 0 of 8 slots taken"},
		{"UPDATE oarlock.workers SET queues = '{}'", "5th in line in queue default; 0 of 16 slots taken"}, // one worker serves it and the runs of dag picky
		{"SELECT oarlock.set_dag('capped', paused => false)", "7th in line in queue default; 0 of 16 slots taken"},
		{"SELECT oarlock.enqueue('capped', priority => p) FROM generate_series(-2, -1) p", "7th in line in queue default; 0 of 16 slots taken"},
		{"SELECT oarlock.enqueue('capped', priority => p) FROM generate_series(1, 3) p", "7th in line in queue default; 0 of 16 slots taken"}, // two, of whichever lanes
		{"UPDATE oarlock.dags SET max_active_runs = 1 WHERE name = 'capped'", "5th in line in queue default; 0 of 16 slots taken"},
		{"UPDATE oarlock.dags SET max_active_runs = 2 WHERE name = 'capped'", "6th in line in queue default; 0 of 16 slots taken"},
		{"SELECT oarlock.set_queue('default', paused => true)", "queue default is paused by postgres"},
		{fmt.Sprintf("UPDATE oarlock.runs SET stage = 1, epoch = 1, started_at = now() WHERE run_id = %d", run), "1st in line in queue default; 0 of 16 slots taken"},
		{"SELECT oarlock.set_queue('default', paused => false)", "2nd in line in queue default; 0 of 16 slots taken"}, // one of capped ranks higher
	} {
		must(t, b.conn, c.change)
		if got := get[string](t, b.conn, "SELECT reason FROM oarlock.run_status($1)", run); got != c.want {
			t.Errorf("after %s: %q, want %q", c.change, got, c.want)
		}
	}
}

// Lists explain each queued run. What that costs does not grow with lanes that hold nothing.
func TestRunStatus_AsksNoWorkerAboutEmptyLanes(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.claim(t, enqueue(t, b.conn))
	must(t, b.conn, `INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
		SELECT gen_random_uuid(), 'w', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, 'c' FROM generate_series(1, 50)`)
	must(t, b.conn, "INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM oarlock.workers w ON CONFLICT DO NOTHING")
	run := enqueue(t, b.conn)
	lanes := func(n int) {
		must(t, b.conn, `INSERT INTO oarlock.lanes (queue, priority, selector, needs, slots, made_for, twin)
			SELECT l.queue, 50, '{"gpu": "1"}', l.needs, l.slots, l.made_for, (SELECT count(*) FROM oarlock.lanes) + n
			  FROM oarlock.lanes l, generate_series(1, $2::int) n WHERE l.lane_id = (SELECT r.lane_id FROM oarlock.runs r WHERE r.run_id = $1)`, run, n)
	}
	must(t, b.conn, `CREATE OR REPLACE FUNCTION oarlock.may_serve(w oarlock.workers, offers text[], l oarlock.lanes) RETURNS bool
		LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN (w).labels @> (l).selector; END $$`) // it is written out in queries, where no call can be counted
	calls := func() int {
		conn := connect(t, b.url)
		must(t, conn, "SET track_functions = 'all'")
		must(t, conn, "BEGIN")
		if got := get[string](t, conn, "SELECT reason FROM oarlock.run_status($1)", run); !strings.HasPrefix(got, "1st in line") {
			t.Error(got)
		}
		return get[int](t, conn, "SELECT pg_stat_get_xact_function_calls('oarlock.may_serve'::regproc)")
	}
	lanes(10)
	few := calls()
	lanes(990)
	if many := calls(); few == 0 || many > few {
		t.Errorf("asks %d times with 10 empty lanes, and %d times with 1,000", few, many)
	}
}

func TestQuietSince_FollowsFromTheLease(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.claim(t, enqueue(t, b.conn))
	const query = "SELECT oarlock.quiet_since(w) IS NOT NULL FROM oarlock.workers w"
	for _, c := range []struct {
		age  string
		ttl  int
		want bool
	}{
		{"9 s", 300_000, false},
		{"11 s", 300_000, true},
		{"7 s", 24_000, false},
		{"9 s", 24_000, true},
	} {
		must(t, b.conn, "UPDATE oarlock.workers SET ttl_ms = $1, beat_at = clock_timestamp() - $2::interval", c.ttl, c.age)
		if got := get[bool](t, b.conn, query); got != c.want {
			t.Errorf("a lease of %d ms, %s after the last sign of life: quiet is %v", c.ttl, c.age, got)
		}
	}
	must(t, b.conn, "UPDATE oarlock.workers SET state = 'gone', ended_at = now()")
	if get[bool](t, b.conn, query) {
		t.Error("one that ended is quiet")
	}
}

// Lists use these functions for each worker and each run. Inlined they cost nothing; as calls they would be most of the query.
func TestQuietSince_IsWrittenOutInQueries(t *testing.T) {
	t.Parallel()
	b := api(t)
	plan := strings.Join(b.list(t, "EXPLAIN (VERBOSE) SELECT w.name FROM oarlock.workers w WHERE oarlock.quiet_since(w) IS NULL"), "\n")
	if !strings.Contains(plan, "beat_at") || strings.Contains(plan, "quiet_since") {
		t.Errorf("the planner calls it for each worker:\n%s", plan)
	}
}

// The reason of a parked run is stored, and stands in its row until its next driver writes.
func TestRunStatus_ForgetsWhatARunWaitedFor(t *testing.T) {
	t.Parallel()
	b := api(t)
	run := enqueue(t, b.conn)
	b.claim(t, run)
	must(t, b.conn, "UPDATE oarlock.runs SET reason = 'step load: exit 1; retries at 2026-11-20T00:00:00Z'")
	const query = "SELECT reason FROM oarlock.run_status($1)"
	if got := get[string](t, b.conn, query, run); got != "" {
		t.Errorf("a run that goes on: %q", got)
	}
	must(t, b.conn, "UPDATE oarlock.runs SET state = 'waiting', worker_id = NULL, claim_id = NULL")
	if got := get[string](t, b.conn, query, run); got != "step load: exit 1; retries at 2026-11-20T00:00:00Z" {
		t.Errorf("a parked run: %q", got)
	}
}

func TestTaskStatus_ShowsEveryStepOfThisGeneration(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "all", "steps": [{"id": "scan", "foreach": {}}, {"id": "load"}, {"id": "last"}], "handler_on": {"init": {}, "exit": {}}}`)
	run := get[int64](t, b.conn, "SELECT oarlock.enqueue('all')")
	b.claim(t, run)
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, item, alt, state, attempt, generation, epoch, seq, outputs, failure_kind, exit_code, grown)
		VALUES ($1, 0, '', 0, 'running', 0, 2, 1, 1, NULL, NULL, NULL, '{"generation": 2, "items": [{"key": "k"}, {"key": "later"}]}'), ($1, 0, 'k', 0, 'succeeded', 1, 2, 1, 2, '{"rows": "7"}', NULL, 0, NULL),
		       ($1, 1, '', 0, 'replaced', 1, 2, 1, 3, NULL, 'exit', 3, '{"generation": 2}'), ($1, 1, '', 1, 'succeeded', 1, 2, 1, 4, '{"rows": "8"}', NULL, 0, NULL),
		       ($1, 4, '', 0, 'running', 1, 2, 1, 5, NULL, NULL, NULL, NULL)`, run)
	must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, item, alt, state, attempt, generation, epoch, seq, outputs) -- before a retry, and not again
		VALUES ($1, 0, 'gone', 0, 'succeeded', 1, 1, 1, 6, '{"rows": "1"}'), ($1, 0, 'k', 1, 'succeeded', 1, 1, 1, 7, '{"rows": "2"}'),
		       ($1, 1, '', 2, 'succeeded', 1, 1, 1, 8, '{"rows": "3"}'), ($1, 2, '', 0, 'pending', 1, 2, 1, 9, NULL),
		       ($1, 2, '', 1, 'succeeded', 1, 1, 1, 10, '{"rows": "4"}')`, run)
	const query = "SELECT concat_ws(' ', step, coalesce(item, '-'), kind, state, attempt, coalesce(exit_code::text, '-'), replaces, 'of ' || items) FROM oarlock.task_status($1)"
	got := b.list(t, query, run)
	want := []string{
		"scan - foreach running 0 - of 2", "scan k foreach succeeded 1 0", "load - step replaced 1 3", "load~1 - replacement succeeded 1 0 load",
		"last - step pending 1 -", "@exit - handler running 1 -",
	}
	if !equal(got, want) {
		t.Errorf("tasks\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if over := get[bool](t, b.conn, "SELECT is_over OR outputs IS NOT NULL FROM oarlock.run_result($1)", run); over {
		t.Error("a run that is under way has a result")
	}
	b.leave(t, run, "succeeded")
	if outputs := get[string](t, b.conn, "SELECT outputs::text FROM oarlock.run_result($1) WHERE is_over", run); outputs != `{"load~1": {"rows": "8"}}` {
		t.Errorf("outputs %s", outputs)
	}
}

func TestScaleHint_CountsWhatIsDue(t *testing.T) {
	t.Parallel()
	b := api(t)
	claimed := enqueue(t, b.conn)
	b.claim(t, claimed)
	must(t, b.conn, `SELECT oarlock.enqueue_many('report', array_fill('{"day": "x"}'::jsonb, '{3}'))`)
	must(t, b.conn, `SELECT oarlock.enqueue('report', '{"day": "x"}', run_at => now() + interval '1 hour')`)
	must(t, b.conn, "UPDATE oarlock.workers SET busy = 5, waiting = 2")
	const query = "SELECT concat_ws(' ', queued, claimed, workers, slots, busy, waiting, wanted, oldest_ms >= 0) FROM oarlock.scale_hint($1)"
	for queue, want := range map[any]string{"default": "3 1 1 8 5 2 10 t", nil: "3 1 1 8 5 2 10 t", "other": "0 0 1 8 5 2 7 t"} {
		if got := get[string](t, b.conn, query, queue); got != want {
			t.Errorf("queue %v: %s, want %s", queue, got, want)
		}
	}
	must(t, b.conn, "UPDATE oarlock.workers SET unfit = 'this host cannot start tasks'") // only its slots in use count
	if got := get[string](t, b.conn, query, nil); got != "3 1 0 5 5 2 10 t" {
		t.Errorf("with a worker that claims nothing: %s", got)
	}
	must(t, b.conn, "UPDATE oarlock.workers SET unfit = '', beat_at = now() - interval '1 min'") // its tasks go on there, or elsewhere
	if got := get[string](t, b.conn, query, nil); got != "3 1 0 0 0 0 10 t" {
		t.Errorf("with a worker that gives no sign of life: %s", got)
	}
	must(t, b.conn, "UPDATE oarlock.workers SET only_run = (SELECT min(run_id) FROM oarlock.runs)") // it serves a single run
	if got := get[string](t, b.conn, query, nil); got != "3 1 0 0 0 0 3 t" {
		t.Errorf("with a worker of one run: %s", got)
	}
}

// The age of the oldest run shows that there are too few workers, so runs that a pause holds do not count.
func TestScaleHint_AgesWhatNoPauseHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statement string
		want      int // hours
	}{
		"nothing in the way": {"SELECT 1", 9},
		"queue paused":       {"SELECT oarlock.set_queue('default', paused => true)", 3},
		"dag paused":         {"UPDATE oarlock.dags SET paused_by = 'me', paused_at = now()", 3},
		"a selector":         {`UPDATE oarlock.lanes SET selector = '{"gpu": "true"}'`, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := api(t)
			begun, fresh := enqueue(t, b.conn), enqueue(t, b.conn)
			b.claim(t, begun)
			b.leave(t, begun, "queued")
			must(t, b.conn, "UPDATE oarlock.runs SET run_at = now() - interval '3 h' WHERE run_id = $1", begun)
			must(t, b.conn, "UPDATE oarlock.runs SET run_at = now() - interval '9 h' WHERE run_id = $1", fresh)
			must(t, b.conn, c.statement)
			if got := get[int](t, b.conn, "SELECT round(oldest_ms / 3600000.0) FROM oarlock.scale_hint()"); got != c.want {
				t.Errorf("%d hours, want %d", got, c.want)
			}
		})
	}
}

// Each case begins with a run that a worker of 8 slots holds, a run that has begun and was given back, and three new runs.
func TestScaleHint_WantsNoSlotsForWhatMoreWorkersCannotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ statement, want string }{
		"nothing in the way":                   {"SELECT 1", "4 4"},
		"queue paused":                         {"SELECT oarlock.set_queue('default', paused => true)", "4 1"},
		"dag paused":                           {"SELECT oarlock.set_dag('report', paused => true)", "4 1"},
		"dag paused, its runs where they were": {"UPDATE oarlock.dags SET paused_by = 'me', paused_at = now()", "4 1"},
		"queue full":                           {"SELECT oarlock.set_queue('default', max_running => 1)", "4 0"},
		"queue with room for two":              {"SELECT oarlock.set_queue('default', max_running => 3)", "4 2"},
		"dag at its limit":                     {"UPDATE oarlock.dags SET max_active_runs = 2", "4 1"},
		"dag beyond its limit":                 {"UPDATE oarlock.dags SET max_active_runs = 1", "4 1"},
		"dag with room for two":                {"UPDATE oarlock.dags SET max_active_runs = 4", "4 3"},
		"both limits":                          {"UPDATE oarlock.dags SET max_active_runs = 4; SELECT oarlock.set_queue('default', max_running => 2)", "4 1"},
		"a selector":                           {`UPDATE oarlock.lanes SET selector = '{"gpu": "true"}'`, "4 0"},
		"a selector that a worker has":         {`UPDATE oarlock.lanes SET selector = '{"gpu": "true"}'; UPDATE oarlock.workers SET labels = '{"gpu": "true"}'`, "4 4"},
		"an action":                            {"UPDATE oarlock.lanes SET needs = '{action:mine}'", "4 0"},
		"more slots than anybody has":          {"UPDATE oarlock.lanes SET slots = 9", "4 0"},
		"workers of other queues":              {"UPDATE oarlock.workers SET queues = '{other}'", "4 4"},
		"workers of other queues, a selector":  {`UPDATE oarlock.workers SET queues = '{other}'; UPDATE oarlock.lanes SET selector = '{"gpu": "true"}'`, "4 4"},
		"a worker that drains":                 {"UPDATE oarlock.workers SET state = 'draining'", "4 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := api(t)
			b.claim(t, enqueue(t, b.conn))
			begun := enqueue(t, b.conn)
			b.claim(t, begun)
			b.leave(t, begun, "queued")
			must(t, b.conn, "DELETE FROM oarlock.workers WHERE name = 'w' || $1::bigint", begun)
			must(t, b.conn, `SELECT oarlock.enqueue_many('report', array_fill('{"day": "x"}'::jsonb, '{3}'))`)
			for _, statement := range strings.Split(c.statement, "; ") {
				must(t, b.conn, statement)
			}
			for _, queue := range []any{"default", nil} {
				if got := get[string](t, b.conn, "SELECT concat_ws(' ', queued, wanted) FROM oarlock.scale_hint($1)", queue); got != c.want {
					t.Errorf("queue %v: %s, want %s", queue, got, c.want)
				}
			}
		})
	}
}

func TestPutDAG_MakesAVersionOfWhatIsNew(t *testing.T) {
	t.Parallel()
	b := api(t)
	put := func(spec, hash string) string {
		t.Helper()
		return get[string](t, b.conn, "SELECT concat_ws(' ', version, is_new) FROM oarlock.put_dag($1::text::jsonb, 'source', $2, '{process,process,action:wait}', 2, 60000)", spec, hash)
	}
	const one, two = `{"name": "d", "steps": [{"id": "a"}]}`, `{"name": "d", "queue": "q", "priority": 7, "max_active_runs": 2, "worker_selector": {"a": "b"}, "steps": [{"id": "a"}]}`
	for _, c := range []struct{ spec, hash, want string }{{one, "h1", "1 t"}, {one, "h1", "1 f"}, {two, "h2", "2 t"}, {one, "h1", "3 t"}, {two, "h2", "4 t"}} {
		if got := put(c.spec, c.hash); got != c.want {
			t.Errorf("hash %s: %s, want %s", c.hash, got, c.want)
		}
	}
	run := get[int64](t, b.conn, "SELECT oarlock.enqueue('d')")
	if got := get[string](t, b.conn, `SELECT concat_ws(' ', r.version, l.queue, l.priority, l.selector, l.needs, l.slots, l.dag_id = r.dag_id, r.queue_deadline - r.run_at)
		FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE run_id = $1`, run); got != `4 q 7 {"a": "b"} {action:wait,process} 2 t 00:01:00` {
		t.Errorf("a run of it goes to %s", got)
	}
	must(t, b.conn, "SELECT oarlock.set_dag('d', removed => true)")
	if got := put(two, "h2"); got != "4 f" {
		t.Errorf("put again after its removal: %s", got)
	}
	wantCode(t, b.conn, "", "SELECT oarlock.enqueue('d')")
	for needs, code := range map[string]string{"{action:river.job}": "OA009", "{action:mine}": ""} {
		wantCode(t, b.conn, code, `SELECT oarlock.put_dag('{"name": "n", "steps": [{"id": "a"}]}', '', 'h', $1)`, needs)
	}
	for _, spec := range []string{`[]`, `{}`, `{"name": "X", "steps": [{"id": "a"}]}`, `{"name": "x", "steps": []}`} {
		wantCode(t, b.conn, "OA013", "SELECT oarlock.put_dag($1::text::jsonb, '', 'h', '{}')", spec)
	}
}

func TestDrainWorker_AsksItByNameOrID(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.claim(t, enqueue(t, b.conn))
	must(t, b.conn, "LISTEN oarlock_test_1")
	if n := get[int](t, b.conn, "SELECT oarlock.drain_worker('w1') + oarlock.drain_worker('nobody')"); n != 1 {
		t.Errorf("asked %d workers", n)
	}
	if n, err := b.conn.WaitForNotification(t.Context()); err != nil || n.Payload != "drain" {
		t.Errorf("heard %v, %v", n, err)
	}
	if got := get[string](t, b.conn, "SELECT state || ' ' || desired FROM oarlock.workers JOIN oarlock.worker_orders USING (worker_id)"); got != "live draining" {
		t.Errorf("the worker is %s", got)
	}
}

func TestEndBackends_OfALostWorkerOnly(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.claim(t, enqueue(t, b.conn))
	victim := connect(t, b.url)
	worker := get[string](t, b.conn, "SELECT worker_id::text FROM oarlock.workers")
	must(t, victim, "SET application_name = 'oarlock/"+worker+"'")
	if n := get[int](t, b.conn, "SELECT oarlock.end_backends($1)", worker); n != 0 {
		t.Errorf("ended %d connections of a worker that lives", n)
	}
	must(t, b.conn, "UPDATE oarlock.workers SET state = 'lost'")
	if n := get[int](t, b.conn, "SELECT oarlock.end_backends($1)", worker); n != 1 {
		t.Errorf("ended %d connections, want 1", n)
	}
	if _, err := victim.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the connection is still there")
	}
}
