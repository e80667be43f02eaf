package health_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// store is a store in memory, with a DAG of one task that runs until it is stopped.
type store struct {
	*storetest.Memory
	began chan struct{}
	w     *worker.Worker
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{Memory: storetest.NewMemory(storetest.Options{Now: time.Now, Boot: boottime.Now}), began: make(chan struct{}, 1)}
	const source = "name: d\nsteps: [{id: a, run: hold}]\n"
	spec, err := dagspec.Parse("d.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutDAG(t.Context(), spec, source, "d.yaml"); err != nil {
		t.Fatal(err)
	}
	return s
}

// run starts a worker; stopped is closed when it has ended.
func (s *store) run(t *testing.T) (w *worker.Worker, stopped chan struct{}) {
	t.Helper()
	w, err := worker.New(worker.Config{
		Register: func(ctx context.Context, self queue.Worker) (worker.Session, error) {
			m, err := s.Register(ctx, self)
			return worker.Session{Claimer: m, Reader: m, Writer: m, Lease: m}, err
		},
		Self: queue.Worker{Name: "w", TTL: 3 * time.Second}, Slots: 2,
		Executors: map[string]worker.Executor{"process": s},
		Logs:      func(worker.Writer, func() time.Time) worker.Logs { return logs{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.w, stopped = w, make(chan struct{})
	go func() {
		defer close(stopped)
		if err := w.Run(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		w.StopNow()
		<-stopped
	})
	return w, stopped
}

// drain stops the worker while a task runs.
func (s *store) drain(t *testing.T) error {
	t.Helper()
	if _, err := s.Enqueue(t.Context(), queue.Request{DAG: "d"}); err != nil {
		return err
	}
	<-s.began
	s.w.Stop()
	return nil
}

// Execute holds until it is stopped.
func (s *store) Execute(ctx context.Context, task *worker.Task) dagrun.Result {
	task.Started()
	s.began <- struct{}{}
	<-ctx.Done()
	return dagrun.Result{Kind: dagrun.KindSignal, Signal: 15}
}

// logs drops everything.
type (
	logs struct{}
	log  struct{}
)

func (logs) Open(worker.LogName) worker.Log                       { return log{} }
func (logs) Close()                                               {}
func (log) Stdout() io.Writer                                     { return io.Discard }
func (log) Stderr() io.Writer                                     { return io.Discard }
func (log) Mask([]string)                                         {}
func (log) Close(context.Context, string) ([]queue.Chunk, string) { return nil, "" }
