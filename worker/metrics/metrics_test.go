package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/logship"
	"github.com/oarlock-dev/oarlock/worker/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSet(t *testing.T, c metrics.Config) *metrics.Set {
	t.Helper()
	s, err := metrics.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// full returns a set with each event once.
func full(t *testing.T, c metrics.Config) *metrics.Set {
	t.Helper()
	s := newSet(t, c)
	s.RunStarted("d", time.Second)
	s.RunLeft("d", "succeeded", 3*time.Second)
	s.RunLeft("d", worker.Parked, 0)
	s.TaskSettled("d", dagrun.TaskFailed)
	s.AttemptEnded(worker.AttemptEnd{DAG: "d", Body: "run", Outcome: "exit", Took: 2 * time.Second})
	s.Polled(worker.PollEnd{Wanted: 5, Got: queue.Polled{Claims: make([]*queue.Claim, 3)}, Took: time.Millisecond})
	s.Polled(worker.PollEnd{Err: io.EOF})
	s.Queue().Looked(io.EOF)
	s.Queue().Swept(nil)
	s.Queue().ChoresDone(io.EOF)
	s.Renewed(9*time.Second, time.Millisecond, nil)
	s.Renewed(8*time.Second, time.Millisecond, io.EOF)
	q := s.Queue()
	q.Flushed(queue.FlushTry{Batches: 4, Records: 9, Bytes: 1000, Took: time.Millisecond})
	q.Flushed(queue.FlushTry{Err: io.EOF})
	q.FenceLost()
	q.Requeued(1, 2)
	q.Permitted(2*time.Second, nil)
	q.Permitted(time.Second, io.EOF)
	s.Watch(func() worker.Status {
		return worker.Status{
			Phase: worker.Draining, Containment: "cgroup", TTL: 5 * time.Minute, Soft: boottime.Now() + time.Hour, Registrations: 2, Losses: 1, GivenUp: 3, Unwritten: 4 * time.Second, Unlogged: 5 * time.Second, Runs: 7, UnfitFor: []string{"host"},
			Slots:   worker.SlotStats{Slots: 8, Free: 3, Waiting: 11, Active: 6, IdleSlotSeconds: 1.5},
			Permits: worker.PermitStats{Held: 19, Waiting: 20},
			Session: queue.SessionStats{Waiting: 12, Trying: 2 * time.Second},
		}
	})
	s.WatchLogs(func() logship.Stats { return logship.Stats{Stored: 100, Dropped: 20, Spooled: 30, Waiting: 40} })
	s.WatchQueue(func(context.Context) (queue.Scale, error) {
		return queue.Scale{Queued: 13, Claimed: 14, Slots: 15, Wanted: 16, Oldest: 17 * time.Second}, nil
	})
	s.WatchPrune(func(context.Context) (time.Duration, error) { return 18 * time.Second, nil })
	s.WatchPools(func(context.Context) ([]queue.Pool, error) {
		return []queue.Pool{{Name: "heavy", Taken: 21, Waiting: 22, Oldest: 23 * time.Second}, {Name: "idle"}}, nil
	})
	return s
}

// scrape reads what a set shows over HTTP.
func scrape(t *testing.T, s *metrics.Set) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func shows(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+page, "\n"+line+"\n") {
			t.Errorf("%q is not on the page", line)
		}
	}
}

func TestSet_ShowsWhatItWasTold(t *testing.T) {
	t.Parallel()
	page := scrape(t, full(t, metrics.Config{Version: "v1"}))
	shows(t, page,
		`oarlock_runs_started_total 1`, `oarlock_run_wait_seconds_sum 1`,
		`oarlock_drives_total{outcome="succeeded"} 1`, `oarlock_drives_total{outcome="parked"} 1`, `oarlock_drives_total{outcome="lost"} 0`,
		`oarlock_run_duration_seconds_sum{outcome="succeeded"} 3`, `oarlock_tasks_total{state="failed"} 1`, `oarlock_tasks_total{state="skipped"} 0`,
		`oarlock_attempts_total{body="run",outcome="exit"} 1`, `oarlock_attempt_duration_seconds_sum{body="run"} 2`,
		`oarlock_polls_total{result="ok"} 1`, `oarlock_polls_total{result="error"} 1`, `oarlock_claimed_runs_sum 3`,
		`oarlock_looks_total{result="error"} 1`, `oarlock_sweeps_total{result="ok"} 1`, `oarlock_chores_total{result="error"} 1`,
		`oarlock_workers_reaped_total 1`, `oarlock_runs_requeued_total 2`,
		`oarlock_flushes_total{result="ok"} 1`, `oarlock_flush_batches_sum 4`, `oarlock_flush_records_sum 9`, `oarlock_flush_bytes_total 1000`,
		`oarlock_renewals_total{result="error"} 1`, `oarlock_renewal_duration_seconds_count 1`, `oarlock_renewal_margin_seconds_sum 17`,
		`oarlock_lives_given_up_total 3`, `oarlock_flush_failing_seconds 4`, `oarlock_log_failing_seconds 5`,
		`oarlock_fences_lost_total 1`, `oarlock_leases_lost_total 1`, `oarlock_registrations_total 2`,
		`oarlock_worker_info{containment="cgroup",version="v1"} 1`, `oarlock_worker_phase{phase="draining"} 1`, `oarlock_worker_phase{phase="live"} 0`,
		`oarlock_worker_unfit{reason="host"} 1`, `oarlock_worker_unfit{reason="records"} 0`, `oarlock_worker_unfit{reason="reads"} 0`, `oarlock_worker_unfit{reason="polls"} 0`, `oarlock_drives_total{outcome="unfit"} 0`,
		`oarlock_runs_held 7`, `oarlock_slots 8`, `oarlock_slots_busy 5`, `oarlock_tasks_active 6`, `oarlock_tasks_waiting 11`,
		`oarlock_slot_idle_seconds_total 1.5`, `oarlock_journal_waiting 12`, `oarlock_journal_busy_seconds 2`,
		`oarlock_log_stored_bytes_total 100`, `oarlock_log_dropped_bytes_total 20`, `oarlock_log_spooled_bytes_total 30`, `oarlock_log_waiting_bytes 40`,
		`oarlock_queue_depth 13`, `oarlock_queue_claimed 14`, `oarlock_queue_slots 15`, `oarlock_queue_slots_wanted 16`,
		`oarlock_permit_calls_total{result="ok"} 1`, `oarlock_permit_calls_total{result="error"} 1`, `oarlock_permit_call_duration_seconds_sum 2`,
		`oarlock_permits_held 19`, `oarlock_permit_waiting 20`, `oarlock_pool_taken{pool="heavy"} 21`, `oarlock_pool_waiting{pool="heavy"} 22`,
		`oarlock_pool_oldest_wait_seconds{pool="heavy"} 23`, `oarlock_pool_oldest_wait_seconds{pool="idle"} 0`,
		`oarlock_queue_oldest_age_seconds 17`, `oarlock_queue_errors_total 0`, `oarlock_prune_overdue_seconds 18`, `oarlock_lease_seconds 300`,
	)
	if !strings.Contains(page, "oarlock_lease_margin_seconds 35") || !strings.Contains(page, "go_goroutines ") || !strings.Contains(page, "process_open_fds ") {
		t.Errorf("the page lacks the lease, Go or the process:\n%s", page)
	}
}

func TestSet_RegistersWithWhatTheProgramGives(t *testing.T) {
	t.Parallel()
	mine := prometheus.NewRegistry()
	s := full(t, metrics.Config{Registerer: mine, PerDAG: true})
	if problems, err := testutil.GatherAndLint(mine); err != nil || len(problems) > 0 {
		t.Errorf("lint: %+v, %v", problems, err)
	}
	if strings.Contains(scrape(t, s), "go_goroutines") {
		t.Error("Go's metrics are the program's own business")
	}
	if _, err := metrics.New(metrics.Config{Registerer: mine}); err == nil {
		t.Error("two sets are in one registry")
	}
	if n, err := testutil.GatherAndCount(mine, "oarlock_slots"); err != nil || n != 1 {
		t.Errorf("after a second set that failed: %d series, %v", n, err)
	}
	hidden := newSet(t, metrics.Config{Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"fleet": "a"}, prometheus.NewRegistry())})
	w := httptest.NewRecorder()
	if hidden.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)); w.Code != http.StatusNotFound {
		t.Errorf("status %d", w.Code)
	}
}

// alien is a value that must not become a label: a name that a user chose.
func alien(s *metrics.Set, n int) {
	for i := range n {
		name := fmt.Sprintf("alien_%d", i)
		s.RunStarted(name, 0)
		s.RunLeft(name, worker.Outcome(name), 0)
		s.RunLeft(name, "failed", 0)
		s.TaskSettled(name, dagrun.State(i%256))
		s.AttemptEnded(worker.AttemptEnd{DAG: name, Body: name, Outcome: name})
	}
	s.Watch(func() worker.Status { return worker.Status{Phase: "alien_phase", Containment: "alien_level"} })
}

func TestSet_BoundsItsLabels(t *testing.T) {
	t.Parallel()
	off := newSet(t, metrics.Config{})
	alien(off, 1000)
	page := scrape(t, off)
	shows(t, page, `oarlock_drives_total{outcome="other"} 1000`, `oarlock_worker_info{containment="other",version=""} 1`)
	if strings.Contains(page, "dag=") || strings.Contains(page, "alien_level") || strings.Contains(page, "alien_phase") {
		t.Error("a name that somebody chose is a label")
	}
	if n := strings.Count(page, "\noarlock_attempts_total{"); n != 203 {
		t.Errorf("%d series, want those of 200 bodies, of which two have two from the start, and the others", n)
	}
	on := newSet(t, metrics.Config{PerDAG: true})
	alien(on, 1000)
	page = scrape(t, on)
	shows(t, page, `oarlock_dag_run_duration_seconds_count{dag="alien_199"} 1`, `oarlock_dag_run_duration_seconds_count{dag="other"} 800`,
		`oarlock_dag_drives_total{dag="other",outcome="failed"} 800`)
	dags := map[string]bool{}
	for _, m := range regexp.MustCompile(`dag="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		dags[m[1]] = true
	}
	if len(dags) != 201 {
		t.Errorf("%d DAGs, want 200 and the others", len(dags))
	}
}

func TestSet_ShowsSomePoolsByName(t *testing.T) {
	t.Parallel()
	s := newSet(t, metrics.Config{})
	all := []queue.Pool{{Name: "other", Taken: 1000}} // a name that a user may choose
	for i := range 60 {
		all = append(all, queue.Pool{Name: fmt.Sprintf("p%02d", i), Taken: 1, Waiting: 2, Oldest: time.Duration(i) * time.Second})
	}
	s.WatchPools(func(context.Context) ([]queue.Pool, error) { return all, nil })
	page := scrape(t, s)
	shows(t, page, `oarlock_pool_taken{pool="p48"} 1`, `oarlock_pool_taken{pool="other"} 1011`, `oarlock_pool_waiting{pool="other"} 22`,
		`oarlock_pool_oldest_wait_seconds{pool="p48"} 48`, `oarlock_pool_oldest_wait_seconds{pool="other"} 59`)
	if n := strings.Count(page, "\noarlock_pool_taken{"); n != 50 {
		t.Errorf("%d series, want 50", n)
	}
	away := newSet(t, metrics.Config{})
	away.WatchPools(func(context.Context) ([]queue.Pool, error) { return nil, errors.New("away") })
	if strings.Contains(scrape(t, away), "oarlock_pool_taken{") {
		t.Error("pools are shown that are not known")
	}
}

func TestSet_GoesOnCountingLogsInTheNextLife(t *testing.T) {
	t.Parallel()
	s := newSet(t, metrics.Config{})
	s.WatchLogs(func() logship.Stats { return logship.Stats{Stored: 10, Dropped: 1, Spooled: 2, Waiting: 5} })
	s.WatchLogs(func() logship.Stats { return logship.Stats{Stored: 7, Waiting: 3} })
	shows(t, scrape(t, s), "oarlock_log_stored_bytes_total 17", "oarlock_log_dropped_bytes_total 1", "oarlock_log_spooled_bytes_total 2", "oarlock_log_waiting_bytes 3")
}

func TestSet_LeavesTheQueueOutWhileItIsNotKnown(t *testing.T) {
	t.Parallel()
	s := newSet(t, metrics.Config{})
	var asked atomic.Int32
	s.WatchQueue(func(ctx context.Context) (queue.Scale, error) {
		asked.Add(1)
		<-ctx.Done() // away
		return queue.Scale{}, ctx.Err()
	})
	for range 3 {
		page := scrape(t, s)
		shows(t, page, "oarlock_queue_errors_total 1")
		if strings.Contains(page, "oarlock_queue_depth ") {
			t.Error("a depth that nobody knows is shown")
		}
	}
	s.WatchPrune(func(context.Context) (time.Duration, error) { return 0, errors.New("away") })
	if strings.Contains(scrape(t, s), "oarlock_prune_overdue_seconds ") {
		t.Error("that nothing is overdue is shown, which nobody knows")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the database was asked %d times in a moment", n)
	}
}

func TestSet_AsksForTheQueueOnceForAll(t *testing.T) {
	t.Parallel()
	s := newSet(t, metrics.Config{})
	asking, answer := make(chan struct{}, 10), make(chan struct{})
	s.WatchQueue(func(ctx context.Context) (queue.Scale, error) {
		asking <- struct{}{}
		select {
		case <-answer:
			return queue.Scale{Queued: 3}, nil
		case <-ctx.Done():
			return queue.Scale{}, errors.New("nobody answered in time")
		}
	})
	first := make(chan string)
	go func() { first <- scrape(t, s) }()
	<-asking
	scrape(t, s) // does not wait for the scrape in progress
	close(answer)
	<-first
	if len(asking) > 0 {
		t.Error("two scrapes asked at once")
	}
}

// table reads the metrics in docs/metrics.md: name, type and labels.
func table(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(oarlock_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\| [^|]+ \\| [^|]+ \\|$").FindAllStringSubmatch(string(text), -1) {
		labels := strings.Join(strings.Fields(strings.NewReplacer("`", "", ",", " ", "–", "").Replace(m[3])), " ")
		rows = append(rows, strings.TrimSpace(m[1]+" "+m[2]+" "+labels))
	}
	return rows
}

func TestDocs_ListEveryMetricAndNoOther(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	full(t, metrics.Config{Registerer: registry, PerDAG: true})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, f := range families {
		row := f.GetName() + " " + strings.ToLower(f.GetType().String())
		for _, label := range f.GetMetric()[0].GetLabel() {
			row += " " + label.GetName()
		}
		there = append(there, row)
	}
	documented := table(t)
	slices.Sort(documented)
	for _, row := range there {
		if !slices.Contains(documented, row) {
			t.Errorf("docs/metrics.md lacks, or has otherwise: %s", row)
		}
	}
	for _, row := range documented {
		if !slices.Contains(there, row) {
			t.Errorf("docs/metrics.md has what there is not: %s", row)
		}
	}
}

func TestSet_DescribesAllItCollects(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	full(t, metrics.Config{Registerer: registry, PerDAG: true})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: %+v, %v", problems, err)
	}
}
