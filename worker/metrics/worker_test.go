package metrics_test

import (
	"context"
	"io"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/metrics"
)

func open(t *testing.T, c queue.Config) *queue.Store {
	t.Helper()
	store, err := queue.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// easy executes everything at once, and logs nothing.
type easy struct{}

func (easy) Execute(_ context.Context, task *worker.Task) dagrun.Result {
	task.Started()
	return dagrun.Result{}
}

func (easy) Open(worker.LogName) worker.Log { return nothing{} }
func (easy) Close()                         {}

type nothing struct{}

func (nothing) Stdout() io.Writer                                     { return io.Discard }
func (nothing) Stderr() io.Writer                                     { return io.Discard }
func (nothing) Mask([]string)                                         {}
func (nothing) Close(context.Context, string) ([]queue.Chunk, string) { return nil, "" }

// work runs a worker on a store until the test ends.
func work(t *testing.T, store *queue.Store, set *metrics.Set) {
	t.Helper()
	w, err := worker.New(worker.Config{
		Register: func(ctx context.Context, self queue.Worker) (worker.Session, error) {
			session, err := store.Register(ctx, self)
			if err != nil {
				return worker.Session{}, err
			}
			return worker.SessionOf(session), nil
		},
		Self: queue.Worker{Name: "w", Containment: "none"}, Slots: 4, Meter: set,
		Executors: map[string]worker.Executor{"process": easy{}},
		Logs:      func(worker.Writer, func() time.Time) worker.Logs { return easy{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	set.Watch(w.Status)
	set.WatchQueue(func(ctx context.Context) (queue.Scale, error) { return store.Scale(ctx, "") })
	set.WatchPools(func(ctx context.Context) ([]queue.Pool, error) { return store.Pools(ctx, "") })
	set.WatchPrune(store.PruneOverdue)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		w.StopNow()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func put(t *testing.T, store *queue.Store, source string) {
	t.Helper()
	spec, err := dagspec.Parse("d.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutDAG(t.Context(), spec, source, "d.yaml"); err != nil {
		t.Fatal(err)
	}
}

func TestSet_CountsWhatAWorkerDoesOnPostgres(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := open(t, queue.Config{URL: db.URL})
	if _, err := owner.SetPool(t.Context(), "heavy", queue.PoolLimits{Slots: 2}); err != nil {
		t.Fatal(err)
	}
	put(t, owner, "name: d\nsteps:\n  - {id: a, run: x, pool: heavy}\n  - {id: b, run: x, depends: [a]}\n")
	for range 5 {
		if _, err := owner.Enqueue(t.Context(), queue.Request{DAG: "d"}); err != nil {
			t.Fatal(err)
		}
	}
	set := newSet(t, metrics.Config{PerDAG: true})
	work(t, open(t, queue.Config{URL: db.URL, Meter: set.Queue()}), set)
	number := func(page, name string) float64 {
		t.Helper()
		m := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(name) + " (.+)$").FindStringSubmatch(page)
		if m == nil {
			return -1
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	page := ""
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	there := func() bool {
		return number(page, `oarlock_drives_total{outcome="succeeded"}`) == 5 && number(page, `oarlock_queue_slots`) >= 0 &&
			number(page, `oarlock_looks_total{result="ok"}`) > 0 && number(page, `oarlock_sweeps_total{result="ok"}`) > 0
	}
	for end := time.Now().Add(30 * time.Second); !there(); <-tick.C {
		if page = scrape(t, set); time.Now().After(end) {
			t.Fatalf("the runs do not end:\n%s", page)
		}
	}
	page = scrape(t, set) // numbers that a scrape reads first may be older than those that it reads last
	shows(t, page,
		`oarlock_runs_started_total 5`, `oarlock_tasks_total{state="succeeded"} 10`, `oarlock_attempts_total{body="run",outcome="succeeded"} 10`,
		`oarlock_claimed_runs_sum 5`, `oarlock_dag_drives_total{dag="d",outcome="succeeded"} 5`,
		`oarlock_worker_phase{phase="live"} 1`, `oarlock_slots_busy 0`, `oarlock_prune_overdue_seconds 0`, `oarlock_runs_requeued_total 0`,
	)
	if margin, lease := number(page, "oarlock_lease_margin_seconds"), number(page, "oarlock_lease_seconds"); margin < 0.4*lease || margin > 0.6*lease {
		t.Errorf("of a lease of %v s a healthy worker has %v s left", lease, margin)
	}
	for name, least := range map[string]float64{
		`oarlock_flushes_total{result="ok"}`: 3, `oarlock_flush_records_sum`: 20, `oarlock_flush_bytes_total`: 1000,
		`oarlock_polls_total{result="ok"}`: 1, `oarlock_permit_calls_total{result="ok"}`: 1, `oarlock_pool_taken{pool="heavy"}`: 0, `oarlock_lease_margin_seconds`: 10, `oarlock_flush_batches_sum`: 10,
	} {
		if got := number(page, name); got < least {
			t.Errorf("%s is %v, want %v or more", name, got, least)
		}
	}
}
