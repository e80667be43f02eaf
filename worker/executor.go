package worker

import (
	"context"
	"io"
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
