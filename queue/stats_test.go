package queue_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

// ended enters runs of a DAG that ended so long ago, and took so long.
func (d *clientBundle) ended(tb testing.TB, dag, state string, ago time.Duration, took ...time.Duration) {
	tb.Helper()
	for _, t := range took {
		d.exec(tb, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, epoch, created_at, started_at, finished_at)
			SELECT v.dag_id, v.version, v.lane_id, $2, ends.at, ends.at, 'sql', 0, session_user, 1, ends.at - $4::interval, ends.at - $4::interval, ends.at
			  FROM oarlock.dags g JOIN oarlock.dag_versions v USING (dag_id), (SELECT clock_timestamp() - $3::interval AS at) ends WHERE g.name = $1`, dag, state, ago, t)
	}
}

func TestStats_CountWhatEndedAndWhatDidNot(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ended(t, "plain", "succeeded", time.Minute, 1*time.Second, 2*time.Second, 3*time.Second, 4*time.Second)
	f.ended(t, "plain", "failed", time.Minute, 5*time.Second)
	f.ended(t, "plain", "canceled", 2*time.Hour, time.Second)
	ids := f.ask(t, "plain", 3)
	f.claim(t, ids[0])
	if _, err := f.store.Enqueue(t.Context(), queue.Request{DAG: "report", Params: map[string]any{"day": "x"}, RunAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	reader := f.open(t, f.user(t, "reader", "oarlock_read"))
	for name, c := range map[string]struct {
		store *queue.Store
		dag   string
		since time.Duration
		want  []queue.DAGStats
	}{
		"all": {reader, "", time.Hour, []queue.DAGStats{
			{DAG: "plain", Queued: 2, Running: 1, Succeeded: 4, Failed: 1, Median: 3 * time.Second, P95: 4800 * time.Millisecond, Longest: 5 * time.Second},
			{DAG: "report", Scheduled: 1},
		}},
		"longer": {f.worker, "plain", 3 * time.Hour, []queue.DAGStats{
			{DAG: "plain", Queued: 2, Running: 1, Succeeded: 4, Failed: 1, Canceled: 1, Median: 2500 * time.Millisecond, P95: 4750 * time.Millisecond, Longest: 5 * time.Second},
		}},
		"nothing": {reader, "none", time.Hour, []queue.DAGStats{}},
	} {
		got, err := c.store.Stats(t.Context(), c.dag, time.Now().Add(-c.since))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	_, err := f.open(t, f.user(t, "app", "oarlock_submit")).Stats(t.Context(), "", time.Now())
	wantError(t, err, nil, "42501")
}

func TestGlimpse_ShowsWorkersQueuesAndRates(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ended(t, "plain", "succeeded", 30*time.Second, slices.Repeat([]time.Duration{time.Second}, 5)...)
	f.ended(t, "plain", "failed", 30*time.Second, time.Second)
	f.ended(t, "plain", "failed", time.Hour, time.Second)
	ids := f.ask(t, "plain", 3)
	f.claim(t, ids[0])
	got, err := f.worker.Glimpse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Workers) != 1 || got.Ended != 0.1 || got.Failed != 1.0/60 {
		t.Errorf("%d workers, %v ended, %v failed", len(got.Workers), got.Ended, got.Failed)
	}
	for _, q := range got.Queues {
		if q.Name == "default" && (q.Queued != 2 || q.Running != 1 || q.Oldest <= 0) {
			t.Errorf("queue %+v", q)
		}
	}
}

func TestFleet_ListsItsRuns(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 4)
	f.claim(t, ids[0])
	f.exec(t, "UPDATE oarlock.runs SET run_at = now() - interval '1 h', ready_at = now() - interval '1 h' WHERE run_id = $1", ids[2])
	f.exec(t, "UPDATE oarlock.runs SET run_at = now() + interval '1 h', ready_at = now() + interval '1 h' WHERE run_id = $1", ids[3])
	store := f.open(t, f.user(t, "eye", "oarlock_read"))
	due, err := store.DueRuns(t.Context(), "default", 10)
	if err != nil || len(due) != 2 || due[0].ID != ids[2] || due[1].ID != ids[1] {
		t.Errorf("due: %v, %v", due, err)
	}
	if due, err := store.DueRuns(t.Context(), "default", 1); err != nil || len(due) != 1 || due[0].ID != ids[2] {
		t.Errorf("the first that is due: %v, %v", due, err)
	}
	workers, err := store.Workers(t.Context())
	if err != nil || len(workers) != 1 {
		t.Fatal(workers, err)
	}
	held, err := store.HeldRuns(t.Context(), workers[0].ID, 10)
	if err != nil || len(held) != 1 || held[0].ID != ids[0] {
		t.Errorf("held: %v, %v", held, err)
	}
	_, err = f.open(t, f.user(t, "app", "oarlock_submit")).DueRuns(t.Context(), "default", 1)
	wantError(t, err, nil, "42501")
}

// A dry run says exactly what prune then does.
func TestPrunable_CountsWhatPruneDeletes(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ended(t, "plain", "succeeded", 31*24*time.Hour, time.Second, time.Second)
	f.ended(t, "plain", "succeeded", 29*24*time.Hour, time.Second)
	f.put(t, "name: few\nretention: {days: 0, runs: 1}\nsteps: [{id: a, run: \"true\"}]\n")
	f.ended(t, "few", "failed", 2*time.Hour, time.Second)
	f.ended(t, "few", "failed", time.Hour, time.Second)
	f.exec(t, "INSERT INTO oarlock.run_keys (submitter, run_key, run_id, request_hash, expires_at) VALUES ('x', 'k', 1, '', now() - interval '1 s')")
	f.exec(t, `WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, state, ended_at)
		VALUES (gen_random_uuid(), 'old', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, 'c', 'gone', now() - interval '8 days') RETURNING worker_id)
		INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{}' FROM w`)
	f.exec(t, `SET ROLE oarlock_owner;
		CREATE TABLE oarlock.log_chunks_20000101 PARTITION OF oarlock.log_chunks FOR VALUES FROM ('2000-01-01') TO ('2000-01-02');
		CREATE TABLE oarlock.log_chunks_20000102 PARTITION OF oarlock.log_chunks FOR VALUES FROM ('2000-01-02') TO ('2000-01-03');
		RESET ROLE`)
	held := f.ask(t, "plain", 1)[0]
	f.claim(t, held)
	f.exec(t, "INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, log_day) VALUES ($1, 0, 'running', 1, 1, 1, 1, '2000-01-02')", held)
	got, err := f.open(t, f.user(t, "reader", "oarlock_read")).Prunable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.DAGs) != 2 || got.DAGs[0].DAG != "few" || got.DAGs[0].Runs != 1 || got.DAGs[1].Runs != 2 || got.DAGs[1].Oldest.IsZero() {
		t.Errorf("by DAG: %+v", got.DAGs)
	}
	pruned, err := f.store.Prune(t.Context(), 1000)
	if err != nil || pruned != got.Pruned || pruned != (queue.Pruned{Runs: 3, Keys: 1, LogDays: 1, Workers: 1}) {
		t.Errorf("pruned %+v, %v, counted %+v", pruned, err, got.Pruned)
	}
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.worker_offers WHERE offers = '{}'"); n != 0 {
		t.Errorf("what %d pruned workers offered is still there", n)
	}
}

// Numbers for people are read from the indexes, however many runs have ended.
func TestStats_ReadNoMoreThanTheyCount(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, smallScale)
	c.ended(t, "plain", "failed", 30*time.Second, slices.Repeat([]time.Duration{time.Second}, 50)...)
	c.exec(t, "VACUUM ANALYZE oarlock.runs")
	few := 100
	for name, args := range map[string]pgx.StrictNamedArgs{
		"queue/stats_ended":   {"dag": nil, "since": time.Now().Add(-time.Hour), "most": few},
		"queue/stats_active":  {"dag": nil, "most": few},
		"queue/load":          {"most": few},
		"queue/rates":         {"most": few},
		"queue/prunable_runs": {"most": few},
		"queue/prune_overdue": {},
	} {
		shown := explain(t, c.conn, sql.Named(name), args)
		shown.Walk(func(p *pgtest.Plan) {
			if p.Node == "Seq Scan" && p.Relation == "runs" {
				t.Errorf("%s reads all runs", name)
			}
		})
		if n := shown.Buffers(); n > 20*few {
			t.Errorf("%s reads %d buffers to count %d runs", name, n, few)
		}
	}
}

// A worker reports how late a prune is, so that an alert can notice a prune that does not run.
func TestPruneOverdue_IsOfTheOldestRunKeptTooLong(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	const day = 24 * time.Hour
	worker := f.open(t, f.user(t, "hand", "oarlock_worker"))
	overdue := func(least, most time.Duration) {
		t.Helper()
		if late, err := worker.PruneOverdue(t.Context()); err != nil || late < least || late > most {
			t.Errorf("overdue by %v, %v, want %v to %v", late, err, least, most)
		}
	}
	f.put(t, "name: kept\nretention: {days: 0}\nsteps: [{id: a, run: \"true\"}]\n")
	f.ended(t, "kept", "succeeded", 400*day, time.Second)
	f.ended(t, "plain", "succeeded", 29*day, time.Second)
	overdue(0, 0)
	f.ended(t, "plain", "failed", 32*day, time.Second)
	f.ended(t, "plain", "failed", 35*day, time.Second)
	overdue(4*day, 6*day)
	if _, err := f.store.Prune(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	overdue(0, 0)
}

func TestErrors_OfStatsNameTheRole(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	app := f.open(t, f.user(t, "app", "oarlock_submit"))
	_, err := app.Prunable(t.Context())
	var known *queue.Error
	if !errors.As(err, &known) || known.Hint != "have an administrator grant oarlock_read to this user" {
		t.Errorf("got %v", err)
	}
}
