package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// Executor runs bodies of one kind: commands, or one action.
type Executor interface {
	// Execute runs the body of one attempt to its end and says how it ended. Once ctx is done the body is to end, as its
	// step's kill says; once task.Now is closed, at once. Timeouts are not the executor's business: they come as an end of
	// ctx. Execute returns when nothing of the body is left, but for what the step says to keep.
	Execute(ctx context.Context, task *Task) dagrun.Result
}

// Task is one attempt as executors see it.
type Task struct {
	Worker      string // id of the worker it runs under
	Run         int64
	UID         string // of the run, for other systems: they may see its number again after a restore
	DAG         string
	Step        string // its name: a replacement's as step~1, a handler's as @exit
	Item        string // key of its item, "" without foreach
	Attempt     int
	Publish     bool   // the body is the publish of one that has succeeded
	PublishTry  int    // of a publish, from 1: its attempt stays the one that succeeded
	Fence       int64  // grows with every drive of the run: systems that compare it can refuse a stale task
	Traceparent string // of the trace that the run belongs to; "": none
	Key         string // the same in every attempt: an idempotency key for systems that take one

	LogicalAt         time.Time // the time that the run is about
	Schedule          string    // the name of the schedule that made the run, "" where none did
	PreviousLogicalAt time.Time // the schedule's time before LogicalAt; zero: none

	Body     *dagspec.Step     // what to run; Publish is a body of its own
	Resolved *dagspec.Resolved // its texts, with all references filled in
	Source   string            // folder of the DAG file, "" when it is not on this host

	Params   map[string]any
	Upstream func() ([]byte, error) // JSON of the direct parents, what $OARLOCK_UPSTREAM holds
	Secrets  map[string]string      // that the step names, read; all that it uses are masked in its log
	RunState string                 // of handlers: the verdict so far
	Failed   []string               // of handlers: the tasks that failed

	Stdout, Stderr io.Writer     // the log of the attempt; never block for long
	Note           func(string)  // adds a line of Oarlock's own to that log; nil: it takes none
	Started        func()        // to be called once, when the body is under way: its timeout counts from then
	Now            chan struct{} // closed when there is no time for grace

	hidden   []string // values that are masked wherever the task shows something
	claim    *queue.Claim
	id       dagrun.TaskID
	clock    *runClock
	taken    int  // what other tasks of the run had put out at the start, in bytes
	settling bool // a Settlement was asked for: its body is durable if it succeeds
}

// Settlement is how this attempt ends in the transaction of its own SQL: see queue.Session.SettleTx. A publish cannot end
// like that: what settles is the body. Ask CheckOutputs before: nothing is checked after.
func (t *Task) Settlement(outputs dagrun.JSON) queue.Settlement {
	t.settling = true
	return queue.Settlement{Claim: t.claim, Task: t.id, Attempt: t.Attempt, Outputs: outputs}
}

// Outputs are what a Go function puts out, by name.
type Outputs map[string]any

// Func is a Go function that is an action: a step calls it by the name under which it is among the Executors,
// "action:NAME". Its context ends when the attempt is to end; context.Cause says why.
//
// An error fails the attempt, as kind exit with code 1; Permanent and Snooze say more. A panic fails it as kind panic,
// with the stack in the log.
type Func func(ctx context.Context, task *Task) (Outputs, error)

// Permanent marks an error that trying again will not mend: neither on_error nor retry_policy may.
func Permanent(err error) error { return &permanentError{err} }

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Snooze is an error that is none: the next attempt starts after d, and the retry budget is left alone.
func Snooze(d time.Duration) error { return &snoozeError{d} }

type snoozeError struct{ span time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozes for %v", e.span) }

// Execute calls the function.
func (f Func) Execute(ctx context.Context, task *Task) dagrun.Result {
	task.Started()
	outputs, err := f(context.WithValue(ctx, loggerKey{}, task.Stderr), task)
	if err != nil {
		return task.failed(ctx, err)
	}
	text, err := json.Marshal(outputs)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindOutput, Reason: "outputs: " + err.Error()}
	}
	if outputs == nil {
		text = nil
	}
	return dagrun.Result{Outputs: dagrun.JSON(text)}
}

// failed is how an error of a function ends its attempt.
func (t *Task) failed(ctx context.Context, err error) dagrun.Result {
	if snooze, ok := errors.AsType[*snoozeError](err); ok {
		return dagrun.Result{SnoozeUntil: t.clock.now() + dagrun.Time(snooze.span.Milliseconds())}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	_, permanent := errors.AsType[*permanentError](err)
	return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true, Reason: err.Error(), Permanent: permanent}
}

type loggerKey struct{}

// Logger writes to the log of the task that a Func's context belongs to; elsewhere it writes nothing.
func Logger(ctx context.Context) *slog.Logger {
	if stderr, ok := ctx.Value(loggerKey{}).(io.Writer); ok {
		return slog.New(slog.NewTextHandler(stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// Session is where a worker's runs are, by role: a *queue.Session in each, or what stands for one in a test.
type Session struct {
	Claimer
	Reader
	Writer
	Lease

	Database string // for people: user@host/database
}

// SessionOf is a session of a store in every role.
func SessionOf(s *queue.Session) Session {
	return Session{Claimer: s, Reader: s, Writer: s, Lease: s, Database: s.Database()}
}

// Claimer is where runs come from. No call waits for another.
type Claimer interface {
	Poll(ctx context.Context, want queue.Want) (queue.Polled, error)
	Look(ctx context.Context, load queue.Load) (queue.Looked, error)
	DoChores(ctx context.Context) (queued int, err error)
	Sweep(ctx context.Context) (queue.Swept, error)
	Hear(ctx context.Context) (queue.Heard, error)
	Attend(ctx context.Context) (queue.Attended, error)
}

// Reader is what drivers read.
type Reader interface {
	Load(ctx context.Context, claims []*queue.Claim) ([]*queue.Loaded, error)
	ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error)
	Definition(ctx context.Context, dagID int64, version int) (*queue.Definition, error)
	Cached(ctx context.Context, run queue.RunID, step, key string, shared bool) (outputs dagrun.JSON, found bool, err error)
}

// Writer is what drivers write.
type Writer interface {
	Commit(ctx context.Context, b *queue.Batch) error
	Release(ctx context.Context, c *queue.Claim, waits bool, wake dagrun.Time) error
	Condemn(ctx context.Context, c *queue.Claim, why error) error
	AppendLogs(ctx context.Context, chunks []queue.Chunk) error
	EnqueueChild(ctx context.Context, c queue.Child) (queue.RunID, error)
}

// Lease is a worker's proof of life, and its end.
type Lease interface {
	Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error)
	Deadline() (soft, hard time.Duration)
	Drain(ctx context.Context) error
	Close(ctx context.Context) error
	Stats() queue.SessionStats
}

// enqueuer executes dag.enqueue: it asks for a run and does not wait for it.
type enqueuer struct{ life *life }

// Execute enqueues. Every attempt of a task asks for a run of its own unless the step names a run_key.
func (e enqueuer) Execute(ctx context.Context, task *Task) dagrun.Result {
	child, err := childOf(task.Resolved.With)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	if err := whenAndOnce(&child, task.Resolved.With); err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	child.Claim, child.Task, child.Attempt, child.Detached = task.claim, task.id, task.Attempt, true
	task.Started()
	id, err := e.life.enqueue(ctx, child)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	return dagrun.Result{Outputs: dagrun.JSON(fmt.Sprintf(`{"run_id":%d}`, id))}
}

// whenAndOnce reads what only dag.enqueue takes.
func whenAndOnce(c *queue.Child, with map[string]any) (err error) {
	c.Key, _ = with["run_key"].(string)
	if at, ok := with["run_at"].(string); ok {
		if c.RunAt, err = time.Parse(time.RFC3339, at); err != nil {
			return fmt.Errorf("with.run_at: %q is no time such as 2026-11-20T03:00:00Z", at)
		}
	}
	return nil
}
