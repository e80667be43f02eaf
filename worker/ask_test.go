package worker_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// absent is a database that does not answer the first reads of each kind.
type absent struct {
	worker.Reader

	definition, load, mail atomic.Int32
}

const absences = 2

func away(asked *atomic.Int32) error {
	if asked.Add(1) <= absences {
		return fmt.Errorf("read: %w", io.ErrUnexpectedEOF)
	}
	return nil
}

func (a *absent) Definition(ctx context.Context, dagID int64, version int) (*queue.Definition, error) {
	if err := away(&a.definition); err != nil {
		return nil, err
	}
	return a.Reader.Definition(ctx, dagID, version)
}

func (a *absent) Load(ctx context.Context, claims []*queue.Claim) ([]*queue.Loaded, error) {
	if err := away(&a.load); err != nil {
		return nil, err
	}
	return a.Reader.Load(ctx, claims)
}

func (a *absent) ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error) {
	if err := away(&a.mail); err != nil {
		return nil, err
	}
	return a.Reader.ReadMail(ctx, claims)
}

func TestDriver_AsksUntilTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: hold}\n")
	readers := make(chan *absent, 2)
	flaky := func(c *worker.Config) {
		c.DrainTimeout = time.Millisecond
		register := c.Register
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			reader := &absent{Reader: s.Reader}
			readers <- reader
			s.Reader = reader
			return s, err
		}
	}
	first := b.start(t, "first", flaky)
	id := b.enqueue(t, "d")
	<-b.bodies.started
	first.Stop()
	b.start(t, "second", flaky)
	<-b.bodies.started
	if _, err := b.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbCancel}); err != nil {
		t.Fatal(err)
	}
	if r := b.await(t, id); r.State != "canceled" {
		t.Errorf("the run is %s: %s", r.State, r.Reason)
	}
	<-readers
	second := <-readers
	for what, asked := range map[string]*atomic.Int32{"definition": &second.definition, "load": &second.load, "mail": &second.mail} {
		if n := asked.Load(); n <= absences {
			t.Errorf("%s was asked for %d times: the test shows nothing", what, n)
		}
	}
}

// stuck is a database that takes a commit and does not answer.
type stuck struct {
	worker.Writer

	on      atomic.Bool
	waiting chan struct{}
	release chan struct{}
}

func (s *stuck) Commit(ctx context.Context, b *queue.Batch) error {
	if s.on.Load() {
		s.waiting <- struct{}{}
		<-s.release
	}
	return s.Writer.Commit(ctx, b)
}

// pair executes step a until the test lets it end, and every other step until it is asked to end.
type pair struct{ started, end, asked chan struct{} }

func (p *pair) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	t.Started()
	p.started <- struct{}{}
	if t.Step == "a" {
		<-p.end
		return dagrun.Result{}
	}
	<-ctx.Done()
	close(p.asked)
	return dagrun.Result{Kind: dagrun.KindSignal, Signal: 15}
}

// Tasks must be asked to end in time in an outage of the database too.
func TestDriver_EndsBodiesWhileACommitWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: x}\n  - {id: b, run: x}\n")
	db := &stuck{waiting: make(chan struct{}, 100), release: make(chan struct{})}
	p := &pair{started: make(chan struct{}, 2), end: make(chan struct{}), asked: make(chan struct{})}
	w := b.start(t, "w", func(c *worker.Config) {
		c.DrainTimeout = time.Millisecond
		c.Executors = map[string]worker.Executor{"process": p}
		register := c.Register
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			db.Writer, s.Writer = s.Writer, db
			return s, err
		}
	})
	b.enqueue(t, "d")
	<-p.started
	<-p.started
	db.on.Store(true)
	close(p.end)
	<-db.waiting
	w.Stop()
	select {
	case <-p.asked:
	case <-time.After(30 * time.Second):
		t.Error("the other task was not asked to end")
	}
	db.on.Store(false)
	close(db.release)
}

// forbidding is a database that does not let this worker read some things.
type forbidding struct {
	worker.Reader

	mail, definition atomic.Pointer[pgconn.PgError]
}

func (f *forbidding) Definition(ctx context.Context, dagID int64, version int) (*queue.Definition, error) {
	if err := f.definition.Load(); err != nil {
		return nil, err
	}
	return f.Reader.Definition(ctx, dagID, version)
}

func (f *forbidding) ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error) {
	if err := f.mail.Load(); err != nil {
		return nil, err
	}
	return f.Reader.ReadMail(ctx, claims)
}

// A database that refuses a worker says nothing about the run. The worker reports the refusal, claims nothing meanwhile, and goes on
// with the run once the database answers again.
func TestDriver_WaitsWhileItMayNotReadItsRun(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"28000", "28P01", "3D000", "42501", "42P01"} {
		for name, of := range map[string]func(*forbidding) *atomic.Pointer[pgconn.PgError]{
			"mail":       func(f *forbidding) *atomic.Pointer[pgconn.PgError] { return &f.mail },
			"definition": func(f *forbidding) *atomic.Pointer[pgconn.PgError] { return &f.definition },
		} {
			t.Run(code+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 20s}\n", 0)
					reader, log := &forbidding{}, &spoken{}
					if name == "definition" {
						of(reader).Store(&pgconn.PgError{Code: code})
					}
					w := b.start(t, "w", func(c *worker.Config) {
						c.Boot, c.Executors["process"], c.Log = boot, sleeper{}, slog.New(slog.NewTextHandler(log, nil))
						through(reader)(c)
					})
					ids = append(ids, b.enqueue(t, "d"))
					pass(5 * time.Second)
					of(reader).Store(&pgconn.PgError{Code: code})
					if _, err := b.Control(t.Context(), queue.Ask{Run: ids[0], Verb: dagrun.VerbPause}); err != nil {
						t.Fatal(err)
					}
					pass(3 * time.Second) // too short for the worker to give its runs up
					if s := w.Status(); !slices.Equal(s.UnfitFor, []string{"reads"}) || log.lines("the database lets no runs be read: nothing is claimed") != 1 {
						t.Errorf("it is unfit for %v", s.UnfitFor)
					}
					of(reader).Store(nil)
					pass(5 * time.Second)
					if s := w.Status(); len(s.UnfitFor) > 0 || log.lines("the database lets runs be read again") != 1 {
						t.Errorf("when it is over it is unfit for %v", s.UnfitFor)
					}
					if _, err := b.Control(t.Context(), queue.Ask{Run: ids[0], Verb: dagrun.VerbResume}); err != nil {
						t.Fatal(err)
					}
					if r := b.over(t, ids[0]); r.State != "succeeded" || r.Epoch > 2 {
						t.Errorf("the run is %s after %d drives: %s", r.State, r.Epoch, r.Reason)
					}
				})
			})
		}
	}
}

// through has a worker read through another reader.
func through(reader *forbidding) func(*worker.Config) {
	return func(c *worker.Config) {
		register := c.Register
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			reader.Reader, s.Reader = s.Reader, reader
			return s, err
		}
	}
}

// A worker that cannot read its runs would hold them for as long as it lives.
func TestReads_AWorkerThatReadsNothingGivesItsRunsUp(t *testing.T) {
	t.Parallel()
	reader := &forbidding{}
	onFullDisk(t, through(reader), func(t *testing.T, f *fullDisk) {
		full := &pgconn.PgError{Severity: "FATAL", Code: "53300", Message: "too many connections"}
		reader.mail.Store(full)
		reader.definition.Store(full)
		if _, err := f.Control(t.Context(), queue.Ask{Run: f.run, Verb: dagrun.VerbPause}); err != nil {
			t.Fatal(err)
		}
		pass(recsTTL - 10*time.Second)
		if f.bodies.now.Load() != 1 || f.worker.Status().GivenUp > 0 {
			t.Fatal("its task was ended before a lease was over")
		}
		pass(30 * time.Second)
		if s := f.worker.Status(); f.bodies.now.Load() != 0 || s.GivenUp != 1 || s.Losses != 0 {
			t.Errorf("%d bodies go on, given up %d times, lost %d times", f.bodies.now.Load(), s.GivenUp, s.Losses)
		}
		held := 0
		for range 600 {
			pass(time.Second)
			if r, err := f.Get(t.Context(), f.run); err != nil {
				t.Fatal(err)
			} else if r.Worker != "" {
				held++
			}
		}
		if held > 300 || held == 0 {
			t.Errorf("the run was held for %d of 600 seconds", held)
		}
		n := f.worker.Status().GivenUp
		if told := f.said.lines("gives up all runs"); told != n || n < 5 || n > 30 {
			t.Errorf("given up %d times in ten minutes, told %d times", n, told)
		}
		if f.said.lines("lets runs be read again") > 0 {
			t.Error("it says that runs can be read")
		}
		reader.mail.Store(nil)
		reader.definition.Store(nil)
		if _, err := f.Control(t.Context(), queue.Ask{Run: f.run, Verb: dagrun.VerbResume}); err != nil {
			t.Fatal(err)
		}
		f.begun(t, 2)
	})
}
