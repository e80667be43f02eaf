package worker_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBundle holds a store in memory and the bodies of its workers.
type testBundle struct {
	*storetest.Memory
	bodies *bodies
}

func setup(t *testing.T, source string) *testBundle {
	t.Helper()
	b := &testBundle{Memory: storetest.NewMemory(storetest.Options{Now: time.Now, Boot: boottime.Now}), bodies: &bodies{started: make(chan *worker.Task, 1000)}}
	b.put(t, source)
	return b
}

func (b *testBundle) put(t *testing.T, source string) {
	t.Helper()
	spec, err := dagspec.Parse("test.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutDAG(t.Context(), spec, source, "test.yaml"); err != nil {
		t.Fatal(err)
	}
}

func (b *testBundle) enqueue(t *testing.T, dag string) queue.RunID {
	t.Helper()
	id, err := b.Enqueue(t.Context(), queue.Request{DAG: dag})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// start runs a worker until the test ends or stops it.
func (b *testBundle) start(t *testing.T, name string, change func(*worker.Config)) *worker.Worker {
	t.Helper()
	c := worker.Config{
		Register: func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := b.Register(ctx, w)
			return worker.Session{Claimer: s, Reader: s, Writer: s, Lease: s}, err
		},
		Cancel: func(ctx context.Context, run queue.RunID, now bool) error {
			_, err := b.Control(ctx, queue.Ask{Run: run, Verb: dagrun.VerbCancel, Now: now})
			return err
		},
		Self: queue.Worker{Name: name}, Slots: 4, DrainTimeout: time.Minute,
		Executors: map[string]worker.Executor{"process": b.bodies},
		Logs:      func(worker.Writer, func() time.Time) worker.Logs { return logs{} },
	}
	if change != nil {
		change(&c)
	}
	w, err := worker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		w.StopNow()
		if err := <-ended; err != nil {
			t.Errorf("worker %s: %v", name, err)
		}
	})
	return w
}

// await waits for the end of a run and returns its state.
func (b *testBundle) await(t *testing.T, id queue.RunID) *queue.Run {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if r, err := b.Get(t.Context(), id); err != nil {
			t.Fatal(err)
		} else if r.Over() {
			return r
		}
	}
	r, _ := b.Get(t.Context(), id)
	t.Fatalf("run %d is still %s: %s", id, r.State, r.Reason)
	return r
}

// states returns the states of a run's tasks, by step and item.
func (b *testBundle) states(t *testing.T, id queue.RunID) string {
	t.Helper()
	tasks, err := b.Tasks(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, task := range tasks {
		name := task.Step
		if task.Item != "" {
			name += "/" + task.Item
		}
		all = append(all, name+"="+task.State)
	}
	return strings.Join(all, " ")
}

// bodies executes tasks by the run text of their step, see Execute.
type bodies struct {
	started chan *worker.Task

	mu  sync.Mutex
	ran []string
}

// Execute understands "exit TEXT", where the exit code is the length of TEXT, "out JSON", "panic TEXT", and "hold", which lasts until
// the body is stopped. It succeeds with any other text.
func (b *bodies) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	t.Started()
	b.mu.Lock()
	b.ran = append(b.ran, t.Step)
	b.mu.Unlock()
	b.started <- t
	verb, rest, _ := strings.Cut(t.Body.Run, " ")
	switch verb {
	case "hold":
		<-ctx.Done()
		return dagrun.Result{Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true}
	case "exit":
		return dagrun.Result{Kind: dagrun.KindExit, ExitCode: len(rest), HasExit: true}
	case "out":
		return dagrun.Result{Outputs: dagrun.JSON(rest)}
	case "panic":
		panic(rest)
	}
	return dagrun.Result{}
}

func (b *bodies) order() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.ran, " ")
}

// logs drops everything.
type logs struct{}

func (logs) Open(worker.LogName) worker.Log { return log{} }
func (logs) Close()                         {}

type log struct{}

func (log) Stdout() io.Writer { return io.Discard }
func (log) Stderr() io.Writer { return io.Discard }
func (log) Mask([]string)     {}

func (log) Close(context.Context, string) ([]queue.Chunk, string) { return nil, "" }

func TestWorker_RunsADiamondInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: x}\n  - {id: b, run: x, depends: [a]}\n  - {id: c, run: x, depends: [a]}\n  - {id: d, run: x, depends: [b, c]}\n")
	id := b.enqueue(t, "d")
	b.start(t, "w", nil)
	if r := b.await(t, id); r.State != "succeeded" {
		t.Errorf("the run is %s: %s", r.State, r.Reason)
	}
	if got := b.bodies.order(); got != "a b c d" && got != "a c b d" {
		t.Errorf("ran in order %s", got)
	}
}

func TestWorker_HandsOnMidGraphWhenStopped(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: x}\n  - {id: b, run: hold, depends: [a]}\n  - {id: c, run: x, depends: [b]}\n")
	first := b.start(t, "first", func(c *worker.Config) { c.DrainTimeout = time.Millisecond })
	id := b.enqueue(t, "d")
	<-b.bodies.started
	<-b.bodies.started
	first.Stop()
	again := b.start(t, "second", nil)
	if task := <-b.bodies.started; task.Step != "b" || task.Attempt != 2 {
		t.Fatalf("the second worker began with attempt %d of %s", task.Attempt, task.Step)
	}
	if _, err := b.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbCancel}); err != nil {
		t.Fatal(err)
	}
	if r := b.await(t, id); r.State != "canceled" || r.Epoch != 2 {
		t.Errorf("the run is %s in epoch %d", r.State, r.Epoch)
	}
	if got := b.states(t, id); got != "a=succeeded b=canceled c=canceled" {
		t.Errorf("tasks: %s", got)
	}
	again.Stop()
}

func TestWorker_APanicIsTheTasksFailure(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: panic oh}\n")
	id := b.enqueue(t, "d")
	b.start(t, "w", nil)
	if r := b.await(t, id); r.State != "failed" || !strings.Contains(r.Reason, "panic: oh") {
		t.Errorf("the run is %s: %s", r.State, r.Reason)
	}
}

// full is a Writer of a database that at first refuses children for want of room.
type full struct {
	worker.Writer
	left *atomic.Int32
}

func (f full) EnqueueChild(ctx context.Context, c queue.Child) (queue.RunID, error) {
	if f.left.Add(-1) >= 0 {
		return 0, errors.Join(&queue.Error{Code: "53100", Message: "could not extend file"}, &pgconn.PgError{Severity: "ERROR", Code: "53100"})
	}
	return f.Writer.EnqueueChild(ctx, c)
}

func TestWorker_AsksForAChildUntilTheDatabaseHasRoom(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: parent\nsteps:\n  - {id: a, action: dag.run, with: {dag: child}}\n")
	b.put(t, "name: child\nsteps:\n  - {id: b, run: fine}\n")
	left := &atomic.Int32{}
	left.Store(3)
	b.start(t, "w", func(c *worker.Config) {
		register := c.Register
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			s.Writer = full{s.Writer, left}
			return s, err
		}
	})
	if r := b.await(t, b.enqueue(t, "parent")); r.State != "succeeded" {
		t.Errorf("the run is %s: %s", r.State, r.Reason)
	}
}
