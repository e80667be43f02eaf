package queue_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

const (
	smallFan = 21_000 // more than a page reads
	largeFan = 100_000
)

// newFan returns a run with n items in step fan. Of each hundred items one failed, one has a replacement that succeeded, one is
// under way and one has not begun. One in a thousand was tried twice. The table has as many rows of other runs, and the run's DAG
// has 20,000 ended runs.
func newFan(t *testing.T, n int) (*clientBundle, queue.RunID) {
	t.Helper()
	d := newClientBundle(t)
	d.put(t, pagesDAG)
	run, err := d.store.Enqueue(t.Context(), queue.Request{DAG: "pages"})
	if err != nil {
		t.Fatal(err)
	}
	d.claim(t, run)
	for _, table := range []string{"runs", "tasks", "attempts", "events", "controls"} {
		d.exec(t, "ALTER TABLE oarlock."+table+" SET (autovacuum_enabled = off)")
	}
	d.exec(t, "SET jit = off")
	d.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, grown)
		SELECT $1, 1, 'running', 0, 1, 1, 1, now(), jsonb_build_object('generation', 1, 'items', (
		       SELECT jsonb_agg(jsonb_build_object('key', 'part-' || i, 'value', '{"name": "part-' || i || '"}')) FROM generate_series(1, $2::int) i))`, run, n)
	const items = `INSERT INTO oarlock.tasks (run_id, step, item, alt, state, attempt, generation, epoch, seq, started_at, finished_at, outputs, worker, exit_code, grown)
		SELECT $1::bigint, 1, 'part-' || i, alt, state, CASE WHEN i % 1000 = 5 THEN 2 ELSE 1 END, 1, 1, i, b, CASE WHEN state <> 'running' THEN b + interval '3 s' END,
		       CASE WHEN state = 'succeeded' THEN jsonb_build_object('rows', i::text) END, 'worker-a', 0,
		       CASE WHEN state = 'replaced' THEN '{"generation": 1, "rule": 0, "first_alt": 1, "count": 1}'::jsonb END
		  FROM generate_series(1, $2::int) i
		 CROSS JOIN LATERAL (SELECT now() - interval '1 h 4 s' + i * interval '1 h' / $2::int AS b) x
		 CROSS JOIN LATERAL (SELECT 0 AS alt, CASE i % 100 WHEN 1 THEN 'failed' WHEN 2 THEN 'replaced' WHEN 3 THEN 'running' ELSE 'succeeded' END AS state
		                     UNION ALL SELECT 1, 'succeeded' WHERE i % 100 = 2) y
		 WHERE i % 100 <> 4`
	d.exec(t, items, run, n)
	d.exec(t, items, run+1_000_000, n)
	d.exec(t, `INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state)
		SELECT $1, 1, 'part-' || i, 0, 1, 1, 'failed' FROM generate_series(5, $2::int, 1000) i`, run, n)
	d.exec(t, `INSERT INTO oarlock.events (run_id, kind, step, item, alt) SELECT $1 + 1000000 * (i % 2), 'skip', 1, 'part-' || i, 0 FROM generate_series(1, $2::int * 2) i`, run, n)
	d.exec(t, `INSERT INTO oarlock.controls (run_id, verb, by) SELECT $1 + 1000000 * (i % 2), 'pause', 'x' FROM generate_series(1, $2::int) i`, run, n)
	d.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
		SELECT r.dag_id, 1, r.lane_id, 'failed', now(), now(), 'sql', 0, 'x', now(), now() FROM oarlock.runs r, generate_series(1, 20000) WHERE r.run_id = $1`, run)
	return d, run
}

// read returns how much a statement reads, including all that it calls, and how long it takes. It takes the worse of two plans:
// one for the given arguments and one for all arguments.
func (d *clientBundle) read(t *testing.T, name string, args pgx.StrictNamedArgs) (p *pgtest.Plan, took time.Duration) {
	t.Helper()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		d.exec(t, "SET plan_cache_mode = "+mode)
		for warm := range 2 { // catalogs are read once
			var text []byte
			begun := time.Now()
			if err := d.conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+sql.Named("queue/"+name), args).Scan(&text); err != nil {
				t.Fatal(err)
			}
			if plan := pgtest.Explained(t, text); warm == 1 && (p == nil || plan.Buffers() > p.Buffers()) {
				p, took = plan, time.Since(begun)
			}
		}
	}
	return p, took
}

func TestPages_ReadWhatTheyShow(t *testing.T) {
	t.Parallel()
	n := smallFan
	if queue.Nightly() {
		n = largeFan
	}
	d, run := newFan(t, n)
	page := func(more pgx.StrictNamedArgs) pgx.StrictNamedArgs {
		args := pgx.StrictNamedArgs{"run": run, "step": nil, "states": nil, "item": nil, "after_step": -1, "after_item": "", "after_alt": 0, "rows": 100}
		maps.Copy(args, more)
		return args
	}
	one := pgx.StrictNamedArgs{"run": run}
	now := time.Now()
	for _, statistics := range []string{"none", "fresh"} {
		if statistics == "fresh" {
			d.exec(t, "ANALYZE oarlock.runs, oarlock.tasks, oarlock.attempts, oarlock.events, oarlock.controls")
		}
		counting := 3 * n / 10 // the pages of the table, and a key for each replacement
		strip := 150
		if statistics == "none" {
			counting = 4 * n // each row of the run by its key, none of another
			strip = 1000     // all runs of the DAG, because the planner expects few
		}
		table := value[int](t, d, "SELECT pg_relation_size('oarlock.tasks') / 8192")
		for _, c := range []struct {
			name, statement string
			args            pgx.StrictNamedArgs
			most            int
		}{
			{"head", "run_head", one, 600},
			{"steps", "step_summaries", one, counting},
			{"first page", "task_page", page(nil), 1000},
			{"first page of a step", "task_page", page(pgx.StrictNamedArgs{"step": "fan"}), 1000},
			{"a page in the middle", "task_page", page(pgx.StrictNamedArgs{"step": "fan", "after_step": 1, "after_item": "part-5"}), 1000},
			{"failed", "task_page", page(pgx.StrictNamedArgs{"states": []string{"failed"}}), 12_000},
			{"no such item", "task_page", page(pgx.StrictNamedArgs{"item": "nothing"}), 12_000},
			{"detail", "task_detail", pgx.StrictNamedArgs{"run": run, "step": "fan", "item": "part-1005"}, 100},
			{"bands", "item_bands", pgx.StrictNamedArgs{
				"run": run, "steps": []string{"fan"}, "since": []time.Time{now.Add(-time.Hour)}, "until": []time.Time{now}, "buckets": 200,
			}, counting},
			{"bands of no items", "item_bands", pgx.StrictNamedArgs{
				"run": run, "steps": []string{"later"}, "since": []time.Time{now.Add(-time.Hour)}, "until": []time.Time{now}, "buckets": 200,
			}, 100},
			{"failures alike", "failure_history", one, 600},
			{"strip", "strips", pgx.StrictNamedArgs{"dags": []string{"pages"}, "rows": 100}, strip},
			{"runs by number", "run_pick", pgx.StrictNamedArgs{"runs": []queue.RunID{run, run + 5}}, 300},
			{"rights", "rights", nil, 50},
			{"journal", "journal", pgx.StrictNamedArgs{"run": run, "event": nil, "control": nil, "rows": 101}, 300},
		} {
			p, took := d.read(t, c.statement, c.args)
			t.Logf("%-5s %-20s %6.0f rows %7d buffers of a table of %d, %v", statistics, c.name, p.Rows, p.Buffers(), table, took)
			if p.Rows == 0 || p.Buffers() > c.most {
				t.Errorf("%s, statistics %s: %v rows, %d buffers, at most %d", c.name, statistics, p.Rows, p.Buffers(), c.most)
			}
		}
	}
	d.fanIsRight(t, run, n)
}

// fanIsRight compares what pages say about a large run with its rows. It also wants a page that finds little to say where it
// stopped.
func (d *clientBundle) fanIsRight(t *testing.T, run queue.RunID, n int) {
	t.Helper()
	fan := summaries(t, d.store, run)[1]
	each := n / 100
	if want := fmt.Sprint(map[string]int{"failed": each, "running": each, "pending": each, "succeeded": n - 3*each}); fmt.Sprint(fan.States) != want || fan.Items != n {
		t.Errorf("%d items, %v, want %v", fan.Items, fan.States, want)
	}
	if first := value[string](t, d, "SELECT min(item) FROM oarlock.tasks WHERE run_id = $1 AND state = 'failed'", run); fan.Failed != first || fan.Retried != n/1000 {
		t.Errorf("%+v, want the first that failed to be %s", fan, first)
	}
	bands, err := d.store.Bands(t.Context(), run, []queue.BandSpan{{Step: "fan", From: fan.First, To: time.Now()}}, 200)
	if err != nil || len(bands["fan"]) != 200 {
		t.Fatal(len(bands["fan"]), err)
	}
	if got, want := bands["fan"][199].States, fan.States; got["running"] != want["running"] || got["succeeded"] != want["succeeded"] || got["failed"] != want["failed"] {
		t.Errorf("%v in the end, want %v", got, want)
	}
	last := value[string](t, d, "SELECT max(item) FROM oarlock.tasks WHERE run_id = $1", run)
	q := queue.TaskQuery{Run: run, Item: strings.ToUpper(last)}
	pages, found := 0, 0
	for next := &(queue.TaskKey{}); next != nil; pages++ {
		q.After = *next
		page, err := d.store.TaskPage(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		found, next = found+len(page.Tasks), page.Next
	}
	if rows := value[int](t, d, "SELECT count(*) FROM oarlock.tasks WHERE run_id = $1", run); found != 1 || pages != rows/20_000+1 {
		t.Errorf("found %d in %d pages of %d rows", found, pages, rows)
	}
}
