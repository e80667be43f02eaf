package queue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestQueues_CountWhatWaitsAndRuns(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	yes, no, two, zero := true, false, 2, 0
	if err := d.store.SetQueue(t.Context(), queue.QueueChange{Name: "slow", Paused: &yes, MaxRunning: &two, MaxQueued: &two}); err != nil {
		t.Fatal(err)
	}
	d.enqueue(t, d.store)
	d.claim(t, d.enqueue(t, d.store))
	queues, err := d.store.Queues(t.Context())
	if err != nil || len(queues) != 2 {
		t.Fatalf("%+v, %v", queues, err)
	}
	if q := queues[0]; q.Name != "default" || q.Queued != 1 || q.Running != 1 || q.PausedBy != "" || !q.PausedAt.IsZero() || q.Oldest < 0 {
		t.Errorf("%+v", q)
	}
	if q := queues[1]; q.Name != "slow" || q.PausedBy == "" || q.PausedAt.IsZero() || q.MaxRunning != 2 || q.MaxQueued != 2 || q.Queued != 0 {
		t.Errorf("%+v", q)
	}
	if err := d.store.SetQueue(t.Context(), queue.QueueChange{Name: "slow", Paused: &no, MaxQueued: &zero}); err != nil {
		t.Fatal(err)
	}
	if queues, err = d.store.Queues(t.Context()); err != nil || queues[1].PausedBy != "" || queues[1].MaxRunning != 2 || queues[1].MaxQueued != 0 {
		t.Errorf("%+v, %v", queues, err)
	}
	wantError(t, d.store.SetQueue(t.Context(), queue.QueueChange{Name: "No Such"}), nil, "OA013")
	missing, err := d.store.MissingQueues(t.Context(), []string{"gold", "slow", "default", "fast"})
	if err != nil || !slices.Equal(missing, []string{"fast", "gold"}) {
		t.Errorf("missing are %v, %v", missing, err)
	}
}

func TestObstacles_AreWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	run := d.enqueue(t, d.store)
	for _, c := range []struct {
		name, change string
		want         queue.Obstacles
	}{
		{"NoWorker", "", queue.Obstacles{Deserted: true}},
		{"Selector", `UPDATE oarlock.lanes SET selector = '{"gpu": "yes", "zone": "a"}'`, queue.Obstacles{Deserted: true, Labels: []string{"gpu=yes", "zone=a"}}},
		{"Served", "", queue.Obstacles{Labels: []string{"gpu=yes"}}},
		{"OfItsOwn", "UPDATE oarlock.workers SET only_run = (SELECT min(run_id) FROM oarlock.runs), queues = '{other}'", queue.Obstacles{}},
		{"Unserved", "UPDATE oarlock.workers SET only_run = NULL", queue.Obstacles{Unserved: true, Labels: []string{"gpu=yes"}}},
		{
			"Quiet", `UPDATE oarlock.workers SET beat_at = now() - interval '1 h', queues = '{}', labels = '{"gpu": "yes", "zone": "a"}'`,
			queue.Obstacles{Deserted: true},
		},
		{"Room", "UPDATE oarlock.dags SET max_active_runs = 2; UPDATE oarlock.queues SET max_running = 2", queue.Obstacles{Deserted: true}},
		{
			"Full", "UPDATE oarlock.dags SET max_active_runs = 1; UPDATE oarlock.queues SET max_running = 1",
			queue.Obstacles{Deserted: true, QueueFull: 1, DAGFull: true},
		},
		{
			"Paused", "UPDATE oarlock.dags SET max_active_runs = 0, paused_by = 'ana', paused_at = now(); " +
				"UPDATE oarlock.queues SET max_running = 0, paused_by = 'ana', paused_at = now()",
			queue.Obstacles{Deserted: true, QueuePaused: true, DAGPaused: true},
		},
	} {
		if c.name == "Served" {
			d.claim(t, d.enqueue(t, d.store))
			d.exec(t, `UPDATE oarlock.workers SET labels = '{"zone": "a"}'`)
		}
		for _, statement := range strings.Split(c.change, "; ") {
			if statement != "" {
				d.exec(t, statement)
			}
		}
		got, err := d.store.Obstacles(t.Context(), run)
		if err != nil {
			t.Fatal(c.name, err)
		}
		if len(got.Labels) == 0 {
			got.Labels = nil
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: - want, + got\n%s", c.name, diff)
		}
	}
	_, err := d.store.Obstacles(t.Context(), 99)
	wantError(t, err, queue.ErrNotFound, "")
}

func TestWorkers_ListsThoseAtWorkFirst(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	for range 2 {
		d.claim(t, d.enqueue(t, d.store))
	}
	d.exec(t, `UPDATE oarlock.workers SET state = 'gone', ended_at = now() WHERE name = 'w1'`)
	d.exec(t, `UPDATE oarlock.workers SET labels = '{"gpu": "true"}', queues = '{default}', busy = 3, runs = 1, beat = 9, beat_at = now() - interval '3 s' WHERE name = 'w2'`)
	workers, err := d.store.Workers(t.Context())
	if err != nil || len(workers) != 2 {
		t.Fatalf("%+v, %v", workers, err)
	}
	if w := workers[0]; w.Name != "w2" || w.State != queue.WorkerLive || w.Labels["gpu"] != "true" || w.Queues[0] != "default" || w.Slots != 8 || w.Busy != 3 ||
		w.Runs != 1 || w.Beat != 9 || w.BeatAge.Seconds() < 3 || w.TTL.Seconds() != 30 || w.ID.String() == "" || w.Offers[0] != "process" || !w.EndedAt.IsZero() {
		t.Errorf("%+v", w)
	}
	if w := workers[1]; w.Name != "w1" || w.State != queue.WorkerGone || w.EndedAt.IsZero() {
		t.Errorf("%+v", w)
	}
	if n, err := d.store.DrainWorker(t.Context(), "w2"); n != 1 || err != nil {
		t.Errorf("%d asked, %v", n, err)
	}
	if workers, err = d.store.Workers(t.Context()); err != nil || workers[0].Desired != queue.WorkerDraining {
		t.Errorf("%+v, %v", workers, err)
	}
	_, err = d.store.DrainWorker(t.Context(), "w1")
	wantError(t, err, queue.ErrNotFound, "")
}

// A worker that shows no sign of life is listed as quiet long before its lease ends, with the time when another worker takes over
// its runs.
func TestWorkers_SayWhichAreQuiet(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	for range 2 {
		d.claim(t, d.enqueue(t, d.store))
	}
	listed := func(change string) []queue.WorkerInfo {
		t.Helper()
		d.exec(t, change)
		workers, err := d.store.Workers(t.Context())
		if err != nil || len(workers) != 2 || workers[0].Name != "w1" {
			t.Fatalf("%+v, %v", workers, err)
		}
		return workers
	}
	w := listed(`UPDATE oarlock.workers SET started_at = now() - interval '1 h', beat = 720, ttl_ms = 300000`)
	if w[0].Quiet != nil || w[1].Quiet != nil {
		t.Errorf("both have just given one: %+v, %+v", w[0].Quiet, w[1].Quiet)
	}
	w = listed(`UPDATE oarlock.workers SET beat_at = now() - interval '40 s' WHERE name = 'w1'`)
	if q := w[0].Quiet; q == nil || !q.HasWatcher || q.TakeoverIn > 263*time.Second || q.TakeoverIn < 200*time.Second || w[0].Silent() || w[1].Quiet != nil {
		t.Errorf("w1 should be quiet, and w2 take its runs over in 4m23s: %+v, %+v", q, w[1].Quiet)
	}
	w = listed(`UPDATE oarlock.workers SET beat_at = now() - interval '10 min' WHERE name = 'w1'`)
	if q := w[0].Quiet; q == nil || !q.HasWatcher || q.TakeoverIn >= 0 || !w[0].Silent() {
		t.Errorf("w2 should have taken the runs of w1 over: %+v", q)
	}
	w = listed(`UPDATE oarlock.workers SET beat_at = now() - interval '40 s'`)
	if q := w[0].Quiet; q == nil || q.HasWatcher || w[1].Quiet == nil {
		t.Errorf("both should be quiet: %+v, %+v", q, w[1].Quiet)
	}
}

// However many workers are quiet, the worker that takes over their runs is looked up once. That costs one more read of all
// workers.
func TestWorkers_LookForAWatcherOnce(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.exec(t, `INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel, started_at, beat)
		SELECT gen_random_uuid(), 'w' || i, 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 300000, 'c' || i, now() - interval '1 h', 720 FROM generate_series(1, 300) i`)
	d.exec(t, "VACUUM ANALYZE oarlock.workers")
	var pages int
	if err := d.conn.QueryRow(t.Context(), "SELECT pg_relation_size('oarlock.workers') / current_setting('block_size')::int").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	args := pgx.StrictNamedArgs{"rows": 1000}
	busy, _ := d.read(t, "workers", args)
	d.exec(t, "UPDATE oarlock.workers SET beat_at = now() - interval '40 s' WHERE name <> 'w1'")
	d.exec(t, "VACUUM FULL oarlock.workers")
	quiet, _ := d.read(t, "workers", args)
	if more := quiet.Buffers() - busy.Buffers(); more > 3*pages {
		t.Errorf("with 299 quiet workers in %d pages it reads %d pages more than the %d with none", pages, more, busy.Buffers())
	}
}

func TestScale_CountsOneQueueOrAll(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.enqueue(t, d.store)
	d.claim(t, d.enqueue(t, d.store))
	for queueName, queued := range map[string]int64{"": 1, "default": 1, "other": 0} {
		if hint, err := d.store.Scale(t.Context(), queueName); err != nil || hint.Queued != queued || hint.Workers != 1 || hint.Slots != 8 {
			t.Errorf("queue %q: %+v, %v", queueName, hint, err)
		}
	}
}

func TestPrune_DeletesWhatIsPastItsRetention(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	old := d.enqueue(t, d.store)
	d.exec(t, "UPDATE oarlock.runs SET state = 'failed', queue_deadline = NULL, finished_at = now() - interval '31 days' WHERE run_id = $1", old)
	if p, err := d.store.Prune(t.Context(), 10); err != nil || p.Runs != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := d.store.Prune(t.Context(), 10); err != nil || p.Runs != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	_, err := d.store.Prune(t.Context(), 0)
	wantError(t, err, nil, "OA013")
}

func TestDAGs_ListsCurrentVersionsAndTheirHistory(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.put(t, "name: aaa\nqueue: slow\nmax_active_runs: 3\nsteps: [{id: a, run: \"true\"}]\n")
	changed, err := d.store.PutDAG(t.Context(), parsed(t, reportDAG+"priority: 3\n"), "the source", "/etc/report.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dags, err := d.store.DAGs(t.Context())
	if err != nil || len(dags) != 2 || dags[0].Name != "aaa" || dags[0].Queue != "slow" || dags[0].MaxActive != 3 || dags[1].Version != 2 || dags[1].PutBy == "" || dags[1].PutAt.IsZero() {
		t.Fatalf("%+v, %v", dags, err)
	}
	for _, limit := range []int{0, queue.MaxPage + 1} {
		if page, err := d.store.DAGPage(t.Context(), queue.DAGFilter{Limit: limit}); err == nil {
			t.Errorf("a page of %d has %d dags", limit, len(page))
		}
	}
	v, err := d.store.GetDAG(t.Context(), "report", 0)
	if err != nil || v.Version != 2 || v.Current != 2 || v.ID != changed.ID || v.Source != "the source" || v.SourcePath != "/etc/report.yaml" || v.Hash == "" || len(v.Needs) != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err = d.store.GetDAG(t.Context(), "report", 1); err != nil || v.Version != 1 || v.Current != 2 || v.SourcePath != "" || v.Source != reportDAG {
		t.Errorf("%+v, %v", v, err)
	}
	if all, err := d.store.DAGHistory(t.Context(), "report"); err != nil || len(all) != 2 || all[0].Version != 2 || all[1].Version != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, version := range []int{0, 7} {
		_, err = d.store.GetDAG(t.Context(), map[int]string{0: "reprot", 7: "report"}[version], version)
		wantError(t, err, queue.ErrNotFound, "")
	}
	_, err = d.store.DAGHistory(t.Context(), "reprot")
	wantError(t, err, queue.ErrNotFound, "")
}
