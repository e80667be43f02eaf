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
	// Execute runs the body of one attempt to its end and returns the result. Once ctx is done, it has the body end in the way that
	// the step's kill asks for; once task.Now is closed, at once. A timeout also comes as the end of ctx. Execute returns when no
	// part of the body is left, except for what the step says to keep.
	Execute(ctx context.Context, task *Task) dagrun.Result
}

// Task describes one attempt to its executor.
type Task struct {
	Worker      string // id of the worker's current life
	Run         int64
	UID         string // of the run, for other systems: after a restore of the database, Run may be given to another run
	DAG         string
	Step        string // name of the step; a replacement has step~1, a handler @exit
	Item        string // key of its item; "": the step has no foreach
	Attempt     int
	Publish     bool   // the body is the publish of an attempt that has succeeded
	PublishTry  int    // number of the publish, from 1, while Attempt stays the same; 0: no publish
	Fence       int64  // grows with every drive of the run: other systems can compare it to refuse a stale task
	Traceparent string // of the trace that the run belongs to; "": none
	Key         string // the same in every attempt of the task: an idempotency key for other systems

	LogicalAt         time.Time // the time for which the run does its work
	Schedule          string    // name of the schedule that made the run; "": none did
	PreviousLogicalAt time.Time // the schedule's time before LogicalAt; zero: none

	Body     *dagspec.Step     // the body to run: of the step, or of its publish
	Resolved *dagspec.Resolved // the texts of Body with all references filled in
	Source   string            // folder of the DAG file; "": the file is not on this host

	Params   map[string]any
	Upstream func() ([]byte, error) // returns the direct parents as JSON, the content of $OARLOCK_UPSTREAM
	Secrets  map[string]string      // values of the secrets that the step names, all of them masked in its log
	RunState string                 // for handlers: the state of the run so far
	Failed   []string               // for handlers: the tasks that failed

	Stdout, Stderr io.Writer     // the log of the attempt; writes never block for long
	Note           func(string)  // adds a line of Oarlock to the log; nil: the log takes none
	Started        func()        // the executor calls it once, when the body is under way: the timeout counts from then
	LeaveAlone     time.Duration // set by the executor: for how long the called service wants no more requests; 0: it said nothing
	Now            chan struct{} // closed: the body is to end at once, without grace

	hidden   []string // values that are masked in everything that the task shows
	claim    *queue.Claim
	id       dagrun.TaskID
	clock    *runClock
	taken    int              // bytes of the outputs of other tasks of the run, at the start
	pools    []dagrun.PoolUse // what the body holds of pools, with their keys
	mayLose  bool             // the worker takes one more lost attempt of this task
	settling bool             // Settlement was called: if the task succeeds, its outputs are stored already
}

// Settlement returns the success of this attempt, with its outputs, for queue.Session.SettleTx, which stores it in a transaction of
// the task's own SQL. Settlement also notes on t that the outputs of a success are stored already, so the worker does not check
// them later: the executor must call CheckOutputs before. A publish cannot be settled: only the body of the attempt can.
func (t *Task) Settlement(outputs dagrun.JSON) queue.Settlement {
	t.settling = true
	return queue.Settlement{Claim: t.claim, Task: t.id, Attempt: t.Attempt, Outputs: outputs}
}

// Lost returns the result of an attempt that came to nothing because the run's own database went away under it. An executor may call it
// only if no effect of the attempt is left. failed is the result of such an attempt without Lost.
//
// The attempt is then recorded as lost, and on_lost of the step decides what follows. Lost returns failed itself for a publish, which
// would begin again without a record between, and once this drive has lost max_drives attempts of the task: the body may be the cause.
func (t *Task) Lost(failed dagrun.Result) dagrun.Result {
	if !t.mayLose {
		return failed
	}
	return dagrun.Result{Kind: dagrun.KindLost, Reason: failed.Reason}
}

// Outputs holds the outputs of a Go function by name.
type Outputs map[string]any

// Func is an action written as a Go function. Register it in Config.Executors as "action:NAME"; a step then calls the action NAME.
// The context ends when the attempt is to end, and context.Cause returns the reason.
//
// An error fails the attempt, as kind exit with code 1; see Permanent and Snooze. A panic fails it as kind panic, with the stack in
// the log.
type Func func(ctx context.Context, task *Task) (Outputs, error)

// Permanent marks an error after which another attempt makes no sense. Then neither on_error, retry_policy nor on_lost starts one, and
// a pause of the step does not hold. Do not mark the error of a context that has ended, unless the work must not be repeated: if the
// worker stops, such an attempt fails instead of starting again on another worker. Permanent returns nil if err is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Snooze returns an error with which a Func postpones its work: it does not count as a failure, and the next attempt starts after d
// and uses up no retry.
func Snooze(d time.Duration) error { return &snoozeError{d} }

type snoozeError struct{ span time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozes for %v", e.span) }

// Execute implements Executor by a call of f. It returns the outputs as JSON, a failure of kind output if they cannot be encoded,
// or the result for an error of f, see Func. Logger gets the log of the task from the context of that call.
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

// failed returns the result of an attempt after its Func returned err: a snooze, or a failure of kind exit with code 1. If ctx has
// ended, the reason begins with the cause.
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

// Logger returns a logger that writes to the log of the task. ctx must be derived from the context of a Func; for any other context
// the logger writes nothing.
func Logger(ctx context.Context) *slog.Logger {
	if stderr, ok := ctx.Value(loggerKey{}).(io.Writer); ok {
		return slog.New(slog.NewTextHandler(stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// Session is the store of a life's runs, by role. Each role is played by a *queue.Session, or by a stand-in in a test.
type Session struct {
	Claimer
	Reader
	Writer
	Lease

	Database string // for people: user@host/database
}

// SessionOf returns a Session in which s plays every role.
func SessionOf(s *queue.Session) Session {
	return Session{Claimer: s, Reader: s, Writer: s, Lease: s, Database: s.Database()}
}

// Claimer finds runs and mends the queue. Its methods may be called concurrently, and none waits for another.
type Claimer interface {
	Poll(ctx context.Context, want queue.Want) (queue.Polled, error)
	Look(ctx context.Context, load queue.Load) (queue.Looked, error)
	DoChores(ctx context.Context) (queued int, err error)
	Sweep(ctx context.Context) (queue.Swept, error)
	Hear(ctx context.Context) (queue.Heard, error)
	Attend(ctx context.Context) (queue.Attended, error)
}

// Reader reads what drivers need.
type Reader interface {
	Load(ctx context.Context, claims []*queue.Claim) ([]*queue.Loaded, error)
	ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error)
	Definition(ctx context.Context, dagID int64, version int) (*queue.Definition, error)
	Cached(ctx context.Context, run queue.RunID, step, key string, shared bool) (outputs dagrun.JSON, found bool, err error)
}

// Writer stores what drivers decide.
type Writer interface {
	Commit(ctx context.Context, b *queue.Batch) error
	Release(ctx context.Context, c *queue.Claim, waits bool, wake dagrun.Time) error
	FailRun(ctx context.Context, c *queue.Claim, why error) error
	AppendLogs(ctx context.Context, chunks []queue.Chunk) error
	EnqueueChild(ctx context.Context, c queue.Child) (queue.RunID, error)
}

// Gate gets permits of pools, and closes pools for a while.
type Gate interface {
	Permits(ctx context.Context, all []queue.Permit) ([]queue.PermitAnswer, error)
	LeaveAlone(ctx context.Context, run queue.RunID, pools []dagrun.PoolUse, pause time.Duration) error
}

// Lease keeps a worker registered, and ends the registration. The worker's permits of pools end with it. Calls of Permits must not
// overlap.
type Lease interface {
	Gate

	Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error)
	Deadline() (soft, hard time.Duration)
	Drain(ctx context.Context) error
	Close(ctx context.Context) error
	Stats() queue.SessionStats
}

// enqueuer executes dag.enqueue: it enqueues a run and does not wait for its end.
type enqueuer struct{ life *life }

// Execute implements Executor. It enqueues the run that the inputs describe, tries until the database answers, and outputs the id
// as run_id. Every attempt of a task enqueues a run of its own, unless the step has a run_key.
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

// whenAndOnce reads the inputs run_key and run_at, which only dag.enqueue takes, into c. It returns an error if run_at is no time.
func whenAndOnce(c *queue.Child, with map[string]any) (err error) {
	c.Key, _ = with["run_key"].(string)
	if at, ok := with["run_at"].(string); ok {
		if c.RunAt, err = time.Parse(time.RFC3339, at); err != nil {
			return fmt.Errorf("with.run_at: %q is not a time such as 2026-11-20T03:00:00Z", at)
		}
	}
	return nil
}
