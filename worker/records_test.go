package worker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/health"
	"github.com/oarlock-dev/oarlock/worker/metrics"
)

var errDiskFull = &pgconn.PgError{Severity: "ERROR", Code: "53100", Message: "could not extend file: No space left on device"}

// spoken collects the log of a worker.
type spoken struct{ await.Buffer }

// lines returns the lines with a text in them.
func (s *spoken) lines(text string) (n int) { return strings.Count(s.String(), text) }

const (
	refused = "the database takes no records: nothing is claimed"
	recsTTL = time.Minute
)

// running are bodies that go on until they are stopped.
type running struct {
	started chan *worker.Task
	now     *atomic.Int64
	deaf    bool // the bodies do not end before they are killed
}

func (r running) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	t.Started()
	r.now.Add(1)
	defer r.now.Add(-1)
	r.started <- t
	if r.deaf {
		<-t.Now
	}
	<-ctx.Done()
	return dagrun.Result{Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true}
}

// begun waits for the next attempt of the run.
func (f *fullDisk) begun(t *testing.T, attempt int) {
	t.Helper()
	for {
		select {
		case task := <-f.bodies.started:
			if task.Run == int64(f.run) && task.Attempt == attempt {
				return
			}
		case <-time.After(time.Hour):
			t.Fatalf("attempt %d does not begin", attempt)
		}
	}
}

// fullDisk is a bench in a synctest bubble. Its worker runs one task of a run, while the other task has ended when the disk gets full.
type fullDisk struct {
	*testBundle

	worker *worker.Worker
	said   *spoken
	run    queue.RunID
	bodies running
}

const twoTasks = "name: d\nsteps:\n  - {id: a, run: hold, kill: {grace: 24h}}\n  - {id: b, run: x, depends: [a]}\n"

func onFullDisk(t *testing.T, change func(*worker.Config), test func(t *testing.T, f *fullDisk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		boot := func() time.Duration { return 1e6*time.Hour + time.Since(began) } // later than the real time since boot, which package health uses
		f := &fullDisk{
			testBundle: &testBundle{Memory: storetest.NewMemory(storetest.Options{Now: time.Now, Boot: boot})},
			said:       &spoken{}, bodies: running{started: make(chan *worker.Task, 100), now: &atomic.Int64{}},
		}
		f.put(t, twoTasks)
		f.run = f.enqueue(t, "d")
		f.worker = f.start(t, "w", func(c *worker.Config) {
			c.Boot, c.Even, c.Self.TTL, c.Try = boot, true, recsTTL, f.TryRecords
			c.Executors = map[string]worker.Executor{"process": f.bodies}
			c.Log = slog.New(slog.NewTextHandler(f.said, nil))
			if change != nil {
				change(c)
			}
		})
		<-f.bodies.started
		synctest.Wait()
		test(t, f)
		f.TakeNoRecords(nil)
	})
}

// pass lets the time of a bubble pass.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// fill has the disk full and a record refused.
func (f *fullDisk) fill(t *testing.T) {
	t.Helper()
	f.TakeNoRecords(errDiskFull)
	f.enqueue(t, "d") // the start of this run is the record
	pass(queue.LookInterval + time.Second)
}

func TestRecords_AnOutageIsToldAndNothingIsClaimedUntilItIsOver(t *testing.T) {
	t.Parallel()
	onFullDisk(t, nil, func(t *testing.T, f *fullDisk) {
		if s := f.worker.Status(); len(s.Unfit) > 0 || health.Ready(s) != nil || s.Unwritten != 0 {
			t.Fatalf("before: unfit %q, ready %v, unwritten %v", s.Unfit, health.Ready(s), s.Unwritten)
		}
		f.fill(t)
		since := time.Now()
		if n := f.said.lines(refused); n != 1 {
			t.Fatalf("told %d times", n)
		}
		s := f.worker.Status()
		if err := health.Ready(s); err == nil || !strings.HasPrefix(err.Error(), "the database takes no records (disk full, 53100), since ") {
			t.Errorf("ready: %v", err)
		}
		if err := health.Alive(s); err != nil {
			t.Errorf("alive: %v", err) // a restart would not help
		}
		if s.Unwritten <= 0 || s.Unwritten > 3*time.Second {
			t.Errorf("unwritten for %v", s.Unwritten)
		}
		waits := f.enqueue(t, "d")
		pass(30 * time.Second)
		if r, err := f.Get(t.Context(), waits); err != nil || r.Worker != "" {
			t.Errorf("claimed by %q while nothing is written: %v", r.Worker, err)
		}
		if n := f.said.lines(refused); n != 2 {
			t.Errorf("told %d times within %v", n, time.Since(since))
		}
		f.TakeNoRecords(nil)
		pass(2 * time.Second)
		if s := f.worker.Status(); len(s.Unfit) > 0 || s.Unwritten != 0 || f.said.lines("the database takes records again") != 1 {
			t.Errorf("after: unfit %q, unwritten %v, told %d times", s.Unfit, s.Unwritten, f.said.lines("records again"))
		}
		if r, err := f.Get(t.Context(), waits); err != nil || r.Worker != "w" {
			t.Errorf("not claimed once records are taken: %v", err)
		}
		if s := f.worker.Status(); s.GivenUp != 0 || s.Registrations != 1 {
			t.Errorf("given up %d times, registered %d times", s.GivenUp, s.Registrations)
		}
		if strings.Contains(f.said.String(), "secret") {
			t.Error("the log shows a secret")
		}
	})
}

func TestRecords_AWorkerGivesItsRunsUpAfterALeaseAndComesBackOnceATrialIsTaken(t *testing.T) {
	t.Parallel()
	onFullDisk(t, nil, func(t *testing.T, f *fullDisk) {
		f.fill(t)
		pass(recsTTL - 10*time.Second)
		if f.bodies.now.Load() != 1 || f.worker.Status().GivenUp > 0 {
			t.Fatal("its task was ended before a lease was over")
		}
		pass(20 * time.Second) // past the grace
		if f.bodies.now.Load() != 0 {
			t.Fatal("its task goes on")
		}
		r, err := f.Get(t.Context(), f.run)
		if err != nil || r.Worker != "" {
			t.Fatalf("the run is on %q still: %v", r.Worker, err)
		}
		s := f.worker.Status()
		if s.GivenUp != 1 || s.Losses != 0 || s.Phase != worker.Starting || len(s.Unfit) != 1 || health.Ready(s) == nil {
			t.Errorf("given up %d times, lost %d times, %s, unfit %q", s.GivenUp, s.Losses, s.Phase, s.Unfit)
		}
		pass(5 * time.Minute)
		if s := f.worker.Status(); s.Registrations != 1 {
			t.Errorf("registered %d times though no trial was taken", s.Registrations)
		}
		f.TakeNoRecords(nil)
		pass(31 * time.Second) // the longest pause between trials
		if s := f.worker.Status(); s.Registrations != 2 || s.Phase != worker.Live || health.Ready(s) != nil {
			t.Errorf("registered %d times, %s: %v", s.Registrations, s.Phase, health.Ready(s))
		}
		f.begun(t, 2)
		if n := f.said.lines("the database takes records again"); n != 1 {
			t.Errorf("told %d times that it is over", n)
		}
	})
}

// The database may take a trial and still no records. Then the pauses grow, and each life holds runs for a moment only.
func TestRecords_AWorkerThatWritesNothingHoldsRunsForAMomentOnly(t *testing.T) {
	t.Parallel()
	onFullDisk(t, func(c *worker.Config) { c.Try = func(context.Context) error { return nil } }, func(t *testing.T, f *fullDisk) {
		f.fill(t)
		pass(recsTTL + 20*time.Second)
		if f.worker.Status().GivenUp == 0 {
			t.Fatal("it gave nothing up")
		}
		held, looks := 0, 0
		for range 600 {
			pass(time.Second)
			looks++
			if r, err := f.Get(t.Context(), f.run); err != nil {
				t.Fatal(err)
			} else if r.Worker != "" {
				held++
			}
		}
		if held > looks/2 || held == 0 {
			t.Errorf("the run was held for %d of %d seconds", held, looks)
		}
		if s := f.worker.Status(); s.GivenUp < 5 || s.GivenUp > 30 {
			t.Errorf("given up %d times in ten minutes", s.GivenUp)
		}
		f.TakeNoRecords(nil)
		f.begun(t, 2)
	})
}

// Any error of the database is shown in the log, by readiness and by the metrics, and does not fail the run.
func TestRecords_EachKindOfFailureIsToldEverywhere(t *testing.T) {
	t.Parallel()
	server := func(code string) error { return &pgconn.PgError{Severity: "ERROR", Code: code, Message: "refused"} }
	for cause, err := range map[string]error{
		"disk full, 53100": server("53100"), "out of memory, 53200": server("53200"), "too many connections, 53300": server("53300"),
		"read-only, 25006": server("25006"), "locked, 55P03": server("55P03"), "a statement timed out or was canceled, 57014": server("57014"),
		"the server shuts down, 57P01": server("57P01"), "the server takes no connections, 57P03": server("57P03"),
		"permission denied, 42501": server("42501"), "deadlock, 40P01": server("40P01"), "input or output error, 58030": server("58030"),
		"no connection": errAwayDial, "no answer": context.DeadlineExceeded, "connection lost": io.ErrUnexpectedEOF,
	} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			onFullDisk(t, nil, func(t *testing.T, f *fullDisk) {
				set, failed := metrics.New(metrics.Config{})
				if failed != nil {
					t.Fatal(failed)
				}
				set.Watch(f.worker.Status)
				f.TakeNoRecords(err)
				f.enqueue(t, "d")
				pass(4 * time.Second) // less than five from the first failure
				if n := f.said.lines(refused); n != 1 {
					t.Errorf("logged %d times", n)
				}
				if why := health.Ready(f.worker.Status()); why == nil || !strings.Contains(why.Error(), "("+cause+")") {
					t.Errorf("ready: %v", why)
				}
				page := httptest.NewRecorder()
				set.Handler().ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
				if text := page.Body.String(); !strings.Contains(text, "\noarlock_flush_failing_seconds ") || strings.Contains(text, "\noarlock_flush_failing_seconds 0\n") {
					t.Error("the metrics do not show it")
				}
			})
		})
	}
}

// errAwayDial is the error of a connection that cannot be made.
var errAwayDial = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// parts waits for the end of a worker that is to stop, and checks that it took no longer than bound and gave the run back.
func (f *fullDisk) parts(t *testing.T, bound time.Duration) {
	t.Helper()
	asked := time.Now()
	for f.worker.Status().Phase != worker.Stopped {
		pass(10 * time.Millisecond)
		if time.Since(asked) > time.Hour {
			t.Fatal("it goes on for an hour")
		}
	}
	if took := time.Since(asked); took > bound {
		t.Errorf("it took %v, want %v at most", took, bound)
	}
	if r, err := f.Get(t.Context(), f.run); err != nil || r.Worker != "" || r.State != "queued" {
		t.Errorf("the run is %s on %q: %v", r.State, r.Worker, err)
	}
}

func TestRecords_AWorkerPartsAfterItsDrainTimeout(t *testing.T) {
	t.Parallel()
	onFullDisk(t, func(c *worker.Config) { c.DrainTimeout = 5 * time.Second }, func(t *testing.T, f *fullDisk) {
		f.fill(t)
		f.worker.Stop()
		f.parts(t, 10*time.Second)
		if f.bodies.now.Load() != 0 {
			t.Error("its task was not ended")
		}
	})
}

func TestRecords_ASecondStopEndsAWorkerAtOnce(t *testing.T) {
	t.Parallel()
	onFullDisk(t, func(c *worker.Config) { c.DrainTimeout = time.Hour }, func(t *testing.T, f *fullDisk) {
		f.fill(t)
		f.worker.Stop()
		pass(recsTTL / 2)
		if f.bodies.now.Load() != 1 {
			t.Fatal("the first ended its task")
		}
		f.worker.StopNow()
		f.parts(t, 2*time.Second)
	})
}

// A drain may last longer than a worker waits for records. It gives the runs up all the same, while tasks run and while they have
// their grace.
func TestRecords_AWorkerThatDrainsGivesItsRunsUpAfterALease(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]time.Duration{"while tasks run": 24 * time.Hour, "during the grace": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := func(c *worker.Config) {
				c.DrainTimeout = drain
				bodies, _ := c.Executors["process"].(running)
				bodies.deaf = true
				c.Executors["process"] = bodies
			}
			onFullDisk(t, change, func(t *testing.T, f *fullDisk) {
				f.fill(t)
				f.worker.Stop()
				pass(recsTTL - 10*time.Second)
				if f.bodies.now.Load() != 1 || f.worker.Status().GivenUp > 0 {
					t.Fatal("its task was ended before a lease was over")
				}
				f.parts(t, 30*time.Second)
				if f.bodies.now.Load() != 0 || f.worker.Status().GivenUp != 1 {
					t.Errorf("%d tasks go on, given up %d times", f.bodies.now.Load(), f.worker.Status().GivenUp)
				}
			})
		})
	}
}

func TestRecords_AStopWhileRunsAreGivenUpIsHeard(t *testing.T) {
	t.Parallel()
	onFullDisk(t, nil, func(t *testing.T, f *fullDisk) {
		f.fill(t)
		pass(recsTTL + 30*time.Second)
		if f.worker.Status().Phase != worker.Starting {
			t.Fatalf("it is %s", f.worker.Status().Phase)
		}
		f.worker.Stop()
		f.parts(t, time.Second)
	})
}

// refusing is a sink with appends that fail.
type refusing struct {
	worker.Writer

	refuses atomic.Bool
}

func (r *refusing) AppendLogs(context.Context, []queue.Chunk) error {
	if r.refuses.Load() {
		return errors.New("no room")
	}
	return nil
}

// appending appends now and then.
type appending struct {
	logs

	stop chan struct{}
	done chan struct{}
}

func (a appending) Close() { close(a.stop); <-a.done }

func TestRecords_AppendsThatFailAreToldToo(t *testing.T) {
	t.Parallel()
	r := new(refusing)
	r.refuses.Store(true)
	onFullDisk(t, func(c *worker.Config) {
		register := c.Register
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			r.Writer, s.Writer = s.Writer, r
			return s, err
		}
		c.Logs = func(sink worker.Writer, _ func() time.Time) worker.Logs {
			a := appending{logs{}, make(chan struct{}), make(chan struct{})}
			go func() {
				defer close(a.done)
				for {
					select {
					case <-a.stop:
						return
					case <-time.After(time.Second):
						_ = sink.AppendLogs(context.Background(), nil)
					}
				}
			}()
			return a
		}
	}, func(t *testing.T, f *fullDisk) {
		pass(4 * time.Second)
		if n := f.said.lines("the database takes no logs"); n != 1 || f.worker.Status().Unlogged < 2*time.Second {
			t.Errorf("told %d times; for %v", n, f.worker.Status().Unlogged)
		}
		if s := f.worker.Status(); len(s.Unfit) > 0 || health.Ready(s) != nil {
			t.Errorf("unfit %q, ready %v: records are taken", s.Unfit, health.Ready(s))
		}
		r.refuses.Store(false)
		pass(2 * time.Second)
		if n := f.said.lines("the database takes logs again"); n != 1 || f.worker.Status().Unlogged != 0 {
			t.Errorf("told %d times that it is over; for %v", n, f.worker.Status().Unlogged)
		}
	})
}
