package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// finish ends a run some days ago, with a row in every table that refers to runs.
func (b bundle) finish(t *testing.T, run int64, days int) {
	t.Helper()
	b.claim(t, run)
	must(t, b.conn, "INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, log_day) VALUES ($1, 0, 'succeeded', 2, 1, 1, 1, '2020-01-01')", run)
	must(t, b.conn, "INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, log_day) VALUES ($1, 0, '', 0, 1, 1, 'failed', '2020-01-02')", run)
	must(t, b.conn, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data)
		SELECT d, $1, 0, '', 0, a, 0, 1, now(), 'x' FROM (VALUES ('2020-01-01'::date, 2), ('2020-01-02', 1)) v (d, a)`, run)
	must(t, b.conn, "INSERT INTO oarlock.events (run_id, kind) VALUES ($1, 'x')", run)
	must(t, b.conn, "INSERT INTO oarlock.controls (run_id, verb, by) VALUES ($1, 'pause', 'x')", run)
	must(t, b.conn, "INSERT INTO oarlock.followers (run_id, channel, until) VALUES ($1, 'x', now() + interval '1 day')", run)
	must(t, b.conn, `UPDATE oarlock.runs SET state = 'succeeded', claim_id = NULL, worker_id = NULL, finished_at = now() - make_interval(days => $2) WHERE run_id = $1`, run, days)
}

const tables = `SELECT t || ' ' || (xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n FROM oarlock.' || t, false, true, '')))[1]::text
	FROM unnest('{runs,tasks,attempts,controls,events,followers,log_chunks}'::text[]) t`

func TestPrune_TakesAFinishedRunWithEverything(t *testing.T) {
	t.Parallel()
	b := api(t)
	old, young, active := enqueue(t, b.conn), enqueue(t, b.conn), enqueue(t, b.conn)
	b.finish(t, old, 31)
	b.finish(t, young, 29)
	b.claim(t, active)
	if got := get[int](t, b.conn, "SELECT runs FROM oarlock.prune()"); got != 1 {
		t.Errorf("pruned %d runs, want 1", got)
	}
	want := "runs 2,tasks 1,attempts 1,controls 1,events 1,followers 1,log_chunks 2"
	if got := strings.Join(b.list(t, tables), ","); !strings.HasPrefix(got, want[:len(want)-1]) {
		t.Errorf("left %s, want %s", got, want)
	}
}

func TestPrune_TakesWhatBecameOfFireTimes(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	id, gone := b.hourly(t, "stays", 3, ", catchup => true, overlap_policy => 'allow'"), b.hourly(t, "goes", 1, ", catchup => true")
	attend(t, b.conn)
	must(t, b.conn, "SELECT oarlock.drop_schedule('nightly', 'goes')")
	must(t, b.conn, "UPDATE oarlock.schedules SET ended_at = now() - interval '31 days' WHERE schedule_id = $1", gone)
	must(t, b.conn, `UPDATE oarlock.fires SET logical_at = logical_at - interval '31 days', decided_at = decided_at - interval '31 days'
		WHERE schedule_id = $2 OR logical_at = (SELECT min(logical_at) FROM oarlock.fires WHERE schedule_id = $1)`, id, gone)
	must(t, b.conn, "SELECT oarlock.prune()")
	if got := b.list(t, "SELECT name FROM oarlock.schedules ORDER BY 1"); len(got) != 2 {
		t.Errorf("schedules with runs: %v are left", got)
	}
	must(t, b.conn, "DELETE FROM oarlock.runs WHERE schedule_id = $1", gone)
	must(t, b.conn, "SELECT oarlock.prune()")
	if got := b.list(t, "SELECT name || ' ' || (SELECT count(*) FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id) FROM oarlock.schedules s"); !equal(got, []string{"stays 2"}) {
		t.Errorf("left are %v", got)
	}
}

func TestPrune_KeepsAChildWhileItsParentIsActive(t *testing.T) {
	t.Parallel()
	b := api(t)
	parent := enqueue(t, b.conn)
	child := get[int64](t, b.conn, `SELECT oarlock.enqueue_child($1, 1, '', 0, 1, 1, 'report', '{"day": "y"}')`, parent)
	b.finish(t, child, 100)
	if got := get[int](t, b.conn, "SELECT runs FROM oarlock.prune()"); got != 0 {
		t.Error("a child went while its parent may ask for it")
	}
	must(t, b.conn, "SELECT oarlock.cancel($1)", parent)
	if got := get[int](t, b.conn, "SELECT runs FROM oarlock.prune()"); got != 1 {
		t.Errorf("pruned %d runs, want the child", got)
	}
}

func TestPrune_KeepsAsManyRunsAsTheDAGSays(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "few", "retention": {"days": 0, "runs": 2, "logs_days": 14}, "steps": [{"id": "a"}]}`)
	for n := range 5 {
		b.finish(t, get[int64](t, b.conn, "SELECT oarlock.enqueue('few')"), 5-n)
	}
	for _, want := range []int{2, 1, 0} {
		if got := get[int](t, b.conn, "SELECT runs FROM oarlock.prune(2)"); got != want {
			t.Errorf("pruned %d runs, want %d", got, want)
		}
	}
	if got := b.list(t, "SELECT run_id::text FROM oarlock.runs ORDER BY 1"); !equal(got, []string{"4", "5"}) {
		t.Errorf("kept %v, want the newest", got)
	}
}

func TestPrune_KeepsAKeyForSevenDays(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "short", "retention": {"days": 1, "runs": 0, "logs_days": 1}, "steps": [{"id": "a"}]}`)
	const keyed = "SELECT oarlock.enqueue('short', run_key => 'k')"
	run := get[int64](t, b.conn, keyed)
	b.finish(t, run, 2)
	if got := get[int](t, b.conn, "SELECT runs FROM oarlock.prune()"); got != 1 {
		t.Fatalf("pruned %d runs", got)
	}
	if again := get[int64](t, b.conn, keyed); again != run {
		t.Errorf("the key of a run that is gone gave run %d, want %d", again, run)
	}
	must(t, b.conn, "UPDATE oarlock.run_keys SET expires_at = expires_at - interval '8 days'")
	if got := get[int](t, b.conn, "SELECT keys FROM oarlock.prune()"); got != 1 {
		t.Errorf("pruned %d keys", got)
	}
	if again := get[int64](t, b.conn, keyed); again == run {
		t.Error("a key lives for ever")
	}
	wantCode(t, b.conn, "OA013", "SELECT oarlock.prune(0)")
}

// Logs of a run that is not over stay, however old, because users may still read them. Days without such logs are dropped
// whole, and from the other days the logs of ended runs are deleted.
func TestPrune_KeepsTheLogsOfActiveRuns(t *testing.T) {
	t.Parallel()
	b := api(t)
	today := get[time.Time](t, b.conn, "SELECT clock_timestamp() AT TIME ZONE 'UTC'")
	daysAgo := func(n int) string { return today.AddDate(0, 0, -n).Format(time.DateOnly) }
	for ago := 14; ago <= 19; ago++ {
		must(t, b.conn, "CREATE TABLE oarlock.log_chunks_"+strings.ReplaceAll(daysAgo(ago), "-", "")+" PARTITION OF oarlock.log_chunks FOR VALUES FROM ('"+daysAgo(ago)+"') TO ('"+daysAgo(ago-1)+"')")
	}
	must(t, b.conn, "SELECT oarlock.make_log_days(3)")
	logs := func(run int64, ago, attempt int) {
		must(t, b.conn, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data) VALUES ($2, $1, 0, '', 0, $3, 0, 1, now(), 'x')`, run, daysAgo(ago), attempt)
	}
	active := map[string]int{"running": 16, "queued": 17, "waiting": 18, "paused": 400} // the last has no partition
	runs := map[string]int64{}
	for state, ago := range active {
		run := enqueue(t, b.conn)
		runs[state] = run
		b.claim(t, run)
		must(t, b.conn, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, log_day, finished_at) VALUES ($1, 0, 'succeeded', 2, 1, 1, 1, $2, now())`, run, daysAgo(min(ago, 16)))
		must(t, b.conn, `INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, log_day) VALUES ($1, 0, '', 0, 1, 1, 'failed', $2)`, run, daysAgo(ago))
		logs(run, ago, 1)
		if state != "running" {
			b.leave(t, run, state)
		}
	}
	ended := enqueue(t, b.conn)
	b.claim(t, ended)
	for _, ago := range []int{1, 14, 15, 16, 17, 18, 19, 400} {
		logs(ended, ago, 1)
	}
	b.leave(t, ended, "succeeded")
	left := "SELECT ('" + daysAgo(0) + "' - log_day) || ' ' || run_id FROM oarlock.log_chunks ORDER BY log_day DESC, run_id"
	if got := get[int](t, b.conn, "SELECT log_days FROM oarlock.prune()"); got != 2 {
		t.Errorf("dropped %d days, want the two without an active run", got)
	}
	want := []string{fmt.Sprint("1 ", ended), fmt.Sprint("14 ", ended)}
	for _, state := range []string{"running", "queued", "waiting", "paused"} {
		want = append(want, fmt.Sprint(active[state], " ", runs[state]))
	}
	if got := b.list(t, left); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	for _, run := range runs {
		b.leave(t, run, "failed")
	}
	if got := get[int](t, b.conn, "SELECT log_days FROM oarlock.prune()"); got != 3 {
		t.Errorf("dropped %d days, want 3", got)
	}
	if got := b.list(t, left); !slices.Equal(got, want[:2]) {
		t.Errorf("left are %v, want %v", got, want[:2])
	}
}

func TestMakeLogDays_MakesWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := api(t)
	count := func() int {
		return get[int](t, b.conn, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'oarlock.log_chunks'::regclass")
	}
	must(t, b.conn, "SELECT oarlock.make_log_days(3)") // the template may be of yesterday
	before := count()
	if made := get[int](t, b.conn, "SELECT oarlock.make_log_days(3)"); made != 0 || count() != before {
		t.Errorf("made %d days that were there", made)
	}
	must(t, b.conn, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data)
		VALUES ((now() AT TIME ZONE 'UTC')::date + 5, 1, 0, '', 0, 1, 0, 1, now(), 'x')`)
	if made := get[int](t, b.conn, "SELECT oarlock.make_log_days(6)"); made != 2 || count() != before+2 {
		t.Errorf("made %d days, want 2: one has rows in the default partition already", made)
	}
	wantCode(t, b.conn, "22023", "SELECT oarlock.make_log_days(32)")
	wantCode(t, b.conn, "22023", "SELECT oarlock.make_log_days(NULL)")
}

func TestMakeLogDays_DoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	b := api(t)
	must(t, b.conn, "SELECT oarlock.make_log_days(3)") // the database may be from before midnight
	other := connect(t, b.url)
	must(t, other, "BEGIN")
	must(t, other, "LOCK TABLE oarlock.log_chunks IN SHARE UPDATE EXCLUSIVE MODE")
	if made := get[int](t, b.conn, "SELECT oarlock.make_log_days(31)"); made != 0 {
		t.Errorf("made %d days beside somebody else", made)
	}
	must(t, other, "ROLLBACK")
	if made := get[int](t, b.conn, "SELECT oarlock.make_log_days(31)"); made != 28 {
		t.Errorf("made %d days, want 28", made)
	}
}

const keep = "SELECT oarlock.keep(1, 'load', $1, '{}', 1, $2, true)"

func TestPrune_TakesResultsWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	b := api(t)
	for key, ttl := range map[string]int64{"for good": 0, "an hour": 3_600_000, "past": -1, "held": -1} {
		must(t, b.conn, keep, key, ttl)
	}
	holder := connect(t, b.url)
	must(t, holder, "BEGIN")
	must(t, holder, "SELECT FROM oarlock.cache WHERE key = 'held' FOR UPDATE")
	must(t, b.conn, "SET lock_timeout = '10s'")
	must(t, b.conn, "SELECT oarlock.prune()")
	if got := b.list(t, "SELECT key FROM oarlock.cache ORDER BY key"); !equal(got, []string{"an hour", "for good", "held"}) {
		t.Errorf("kept %v", got)
	}
}

func TestKeep_WaitsForNobody(t *testing.T) {
	t.Parallel()
	b := api(t)
	must(t, b.conn, keep, "k", int64(-1))
	pruner := connect(t, b.url)
	must(t, pruner, "BEGIN")
	must(t, pruner, "SELECT oarlock.prune()")
	must(t, b.conn, "SET lock_timeout = '1ms'")
	must(t, b.conn, keep, "k", int64(0)) // the row is as good as gone: this result is not kept
	must(t, pruner, "ROLLBACK")
	must(t, b.conn, keep, "k", int64(0))
	if got := get[int](t, b.conn, "SELECT count(*) FROM oarlock.cache WHERE expires_at = 'infinity'"); got != 1 {
		t.Errorf("kept %d results", got)
	}
}

// lanes is a DAG that lets its submitters choose any priority, with a connection of each of two submitters.
func lanes(t *testing.T) (b bundle, app, other *pgx.Conn) {
	t.Helper()
	b = apiWithRoles(t)
	b.put(t, `{"name": "ranked", "allow": {"priority": true}, "steps": [{"id": "a", "run": "true"}]}`)
	return b, b.user(t, "app", "oarlock_submit"), b.user(t, "other", "oarlock_submit")
}

const (
	askRanked   = "SELECT oarlock.enqueue('ranked', priority => $1::int)"
	rankedLanes = "SELECT count(*) FROM oarlock.lanes WHERE made_for > 0"
	openLanes   = rankedLanes + " AND closed IS NULL"
)

// endRanked ends all runs of the DAG, as workers do.
func (b bundle) endRanked(t *testing.T) {
	t.Helper()
	must(t, b.conn, `UPDATE oarlock.runs r SET state = 'failed', claim_id = NULL, worker_id = NULL, queue_deadline = NULL, started_at = now(), finished_at = now()
		FROM oarlock.dags d WHERE d.dag_id = r.dag_id AND d.name = 'ranked' AND r.finished_at IS NULL`)
}

func (b bundle) wantCount(t *testing.T, want int, of, why string) {
	t.Helper()
	if n := get[int](t, b.conn, of); n != want {
		t.Errorf("%s: %d, want %d", why, n, want)
	}
}

// Submitters may use each priority. A lane goes once all runs in it are over: first workers look there no more, and once no run
// names it, its row goes too.
func TestPrune_ClosesLanesInWhichAllRunsAreOver(t *testing.T) {
	t.Parallel()
	b, app, _ := lanes(t)
	for priority := -100; priority <= 100; priority++ {
		must(t, app, askRanked, priority)
	}
	must(t, b.conn, "SELECT oarlock.prune()")
	b.wantCount(t, 200, openLanes, "lanes in use") // 0 is the priority of the DAG
	b.claim(t, get[int64](t, b.conn, "SELECT max(run_id) - 1 FROM oarlock.runs"))
	b.leave(t, get[int64](t, b.conn, "SELECT max(run_id) - 1 FROM oarlock.runs"), "waiting")
	b.claim(t, get[int64](t, b.conn, "SELECT max(run_id) - 2 FROM oarlock.runs"))
	must(t, b.conn, `UPDATE oarlock.runs SET state = 'failed', queue_deadline = NULL, started_at = now(), finished_at = now() WHERE state = 'queued'`)
	must(t, b.conn, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	must(t, b.conn, "SELECT oarlock.prune()")
	must(t, b.conn, "COMMIT")
	b.wantCount(t, 200, openLanes, "a prune that does not see what others commit")
	must(t, b.conn, "SELECT oarlock.prune()")
	b.wantCount(t, 2, openLanes, "lanes of the run that waits and of the one that runs")
	b.wantCount(t, 200, rankedLanes, "lanes that runs name")
	before := get[int](t, b.conn, "SELECT lane_id FROM oarlock.lanes WHERE priority = 7")
	must(t, app, askRanked, 7)
	b.wantCount(t, before, "SELECT r.lane_id FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.state = 'queued' AND l.closed IS NULL", "the lane of a new run")
	must(t, b.conn, "SELECT oarlock.prune()")
	b.wantCount(t, 3, openLanes, "a lane that was opened again")

	b.endRanked(t)
	must(t, b.conn, "SELECT oarlock.prune()")
	b.wantCount(t, 200, rankedLanes, "lanes that runs name")
	must(t, b.conn, "DELETE FROM oarlock.runs")
	must(t, b.conn, "SELECT oarlock.prune()")
	b.wantCount(t, 0, rankedLanes, "lanes that no run names")
	must(t, app, "SELECT oarlock.enqueue('ranked')")
	b.wantCount(t, 1, "SELECT count(*) FROM oarlock.runs JOIN oarlock.lanes l USING (lane_id) WHERE l.closed IS NULL", "runs that override nothing")
}

// A run that is retried goes to its lane, which may be closed or be another by then.
func TestRetry_OpensTheLaneAgain(t *testing.T) {
	t.Parallel()
	b, app, _ := lanes(t)
	must(t, app, askRanked, 7)
	b.endRanked(t)
	must(t, b.conn, "SELECT oarlock.prune()")
	b.wantCount(t, 0, openLanes, "lanes")
	must(t, app, "SELECT oarlock.retry(1)")
	b.wantCount(t, 7, "SELECT l.priority FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.state = 'queued' AND l.closed IS NULL", "the priority of the run")
	b.endRanked(t)
	must(t, app, "BEGIN")
	must(t, app, "SELECT oarlock.retry(1)")
	must(t, b.conn, "SELECT oarlock.prune()")
	must(t, app, "COMMIT")
	b.wantCount(t, 1, openLanes, "lanes of a run that is being retried")
}

// A run keeps its lane, so no bound refuses its retry.
func TestRetry_PassesTheBoundOfLanes(t *testing.T) {
	t.Parallel()
	b, app, _ := lanes(t)
	b.put(t, `{"name": "ranked", "allow": {"selector": true}, "steps": [{"id": "a", "run": "true"}]}`)
	must(t, app, `SELECT oarlock.enqueue('ranked', selector => '{"n": "old"}')`)
	b.endRanked(t)
	must(t, b.conn, "SELECT oarlock.prune()")
	must(t, app, "SELECT oarlock.enqueue('ranked', selector => jsonb_build_object('n', n::text)) FROM generate_series(1, 250) n")
	must(t, app, "SELECT oarlock.retry(1)")
	b.wantCount(t, 251, openLanes, "lanes, that of the run among them")
}

// A retry holds its run and the parent of the run. Workers that write to these would wait with it.
func TestRetry_WaitsForNoPrune(t *testing.T) {
	t.Parallel()
	b, app, other := lanes(t)
	must(t, app, askRanked, 7)
	b.endRanked(t)
	must(t, b.conn, "BEGIN")
	must(t, b.conn, "SELECT oarlock.prune()")
	must(t, app, "SET statement_timeout = '10s'")
	must(t, app, "SELECT oarlock.retry(1)")
	must(t, other, "SET statement_timeout = '10s'")
	must(t, other, askRanked, 7)
	must(t, b.conn, "COMMIT")
	b.wantCount(t, 2, "SELECT count(*) FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.state = 'queued' AND l.closed IS NULL AND l.priority = 7", "runs in an open lane")
}

// An application may use a lane in a transaction that it keeps open, while other sessions prune and use the lane as well, and so may an administrator that prunes.
func TestPrune_LeavesLanesThatATransactionUses(t *testing.T) {
	t.Parallel()
	b, app, other := lanes(t)
	must(t, app, askRanked, 7)
	b.endRanked(t)

	must(t, app, "BEGIN")
	must(t, app, askRanked, 7)
	must(t, b.conn, "SELECT oarlock.prune()")
	must(t, app, "COMMIT")
	b.wantCount(t, 1, openLanes, "a lane that got a run meanwhile")

	b.endRanked(t)
	must(t, b.conn, "BEGIN")
	must(t, b.conn, "SELECT oarlock.prune()")
	must(t, other, "SET statement_timeout = '10s'")
	must(t, other, askRanked, 7) // does not wait for the end of a prune either
	must(t, b.conn, "COMMIT")
	b.wantCount(t, 1, "SELECT count(*) FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.state = 'queued' AND l.closed IS NULL", "runs in an open lane")

	b.endRanked(t)
	must(t, b.conn, "SELECT oarlock.prune()")
	must(t, app, "BEGIN")
	must(t, app, askRanked, 7)
	must(t, other, askRanked, 7) // does not wait for the other application, which opens the lane
	must(t, app, "ROLLBACK")
	b.wantCount(t, 1, "SELECT count(*) FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.state = 'queued' AND l.closed IS NULL", "runs in an open lane")
}

// Enqueue takes the lane of a DAG from the DAG's row, without a lock on the lane. So prune must leave a lane of a DAG, also if a
// submitter chose the lane before the DAG did.
func TestPrune_LeavesTheLanesOfDAGs(t *testing.T) {
	t.Parallel()
	b, app, _ := lanes(t)
	must(t, app, askRanked, 7)
	b.endRanked(t)
	b.put(t, `{"name": "ranked", "priority": 7, "allow": {"priority": true}, "steps": [{"id": "a", "run": "true"}]}`)
	must(t, b.conn, "SELECT oarlock.set_dag('ranked', paused => true)")
	must(t, b.conn, "SELECT oarlock.set_dag('ranked', paused => false)")
	must(t, b.conn, "SELECT oarlock.prune()")
	b.wantCount(t, 2, "SELECT count(*) FROM oarlock.lanes WHERE priority = 7 AND closed IS NULL", "the lane of the DAG, and the lane while it was paused")
}

// Whatever the order in which statements of enqueues and of a prune come, each run that is not over has an open lane.
func TestPrune_GoesBesideEnqueues(t *testing.T) {
	t.Parallel()
	b, app, other := lanes(t)
	apps, ended := []*pgx.Conn{app, other, b.user(t, "third", "oarlock_submit")}, make(chan error, 3)
	for _, conn := range apps {
		go func() {
			var failed error
			for n := range 300 {
				_, err := conn.Exec(t.Context(), askRanked, n%3+1)
				failed = errors.Join(failed, err)
			}
			ended <- failed
		}()
	}
	for left := len(apps); left > 0; {
		b.endRanked(t)
		must(t, b.conn, "SELECT oarlock.prune()")
		if broken := b.list(t, "SELECT x::text FROM ("+sql.Named("invariants/s13_closed_lane")+") x"); len(broken) > 0 {
			t.Fatalf("runs without an open lane: %v", broken)
		}
		select {
		case err := <-ended:
			if left--; err != nil {
				t.Error(err)
			}
		default:
		}
	}
}
