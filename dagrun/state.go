package dagrun

// TaskID names a task: a step (its index in the graph, handlers after the steps), the key of its item ("" for the step
// itself), and 0 or the number of the replacement.
type TaskID struct {
	Step int
	Item string
	Alt  int
}

// State is the state of a task. docs/language.md explains each state to users.
type State uint8

// Task states. TaskPending and TaskReady are computed from other tasks. They are stored only if the task comes from a stored
// state, or has been ready for a while (EvQueued).
const (
	TaskPending   State = iota // parents not settled
	TaskReady                  // waits for a slot, a pool, a limit of its run, or the answer of a cache
	TaskRunning                // body under way; of a foreach node: items under way
	TaskFinishing              // body succeeded, publish not ended yet
	TaskRetrying               // between attempts, until NextAt
	TaskWaiting                // approval, child run, timer
	TaskPaused                 // held by a task-level pause
	TaskSucceeded
	TaskFailed
	TaskSkipped
	TaskUpstreamFailed
	TaskCanceled
	TaskReplaced
)

// Terminal reports whether the state is final within a generation.
func (s State) Terminal() bool { return s >= TaskSucceeded }

// RunState is the state of a run.
type RunState uint8

// Run states.
const (
	RunQueued RunState = iota
	RunRunning
	RunWaiting // parked: nothing runs, and the wait is long or of unknown length
	RunPaused  // the pause is in force: the run parks as soon as nothing runs
	RunSucceeded
	RunFailed
	RunCanceled
)

// Terminal reports whether the state is final within a generation.
func (s RunState) Terminal() bool { return s >= RunSucceeded }

// FailureKind is the cause of a failure.
type FailureKind string

// Failure kinds. KindNone is success.
const (
	KindNone     FailureKind = ""
	KindExit     FailureKind = "exit"
	KindSignal   FailureKind = "signal"
	KindTimeout  FailureKind = "timeout"
	KindSpawn    FailureKind = "spawn"
	KindLost     FailureKind = "lost"
	KindOutput   FailureKind = "output"
	KindConfig   FailureKind = "config"
	KindPublish  FailureKind = "publish"
	KindHTTP     FailureKind = "http"
	KindSQL      FailureKind = "sql"
	KindPanic    FailureKind = "panic"
	KindRejected FailureKind = "rejected" // a person rejected an approval
	KindChild    FailureKind = "child"    // a child run did not succeed
)

// Request is a request to end a task that is under way. It is durable, so that the next driver honours it too.
type Request uint8

// Requests to a task under way.
const (
	RequestNone Request = iota
	RequestPause
	RequestCancel  // by a person, by fail_fast, or by the end of the run: the task's Reason names which
	RequestTimeout // its own timeout, or the run's
	RequestMark    // Marked is the requested state
)

// Ending is the cause that ends a run before all its steps have settled by themselves.
type Ending uint8

// Endings, weakest first. A stronger ending replaces a weaker one, never the reverse.
const (
	EndingNone     Ending = iota
	EndingFailFast        // a failure under fail_fast
	EndingInit            // the init handler failed
	EndingTimeout         // the run's own timeout
	EndingDrives          // too many lost drives
	EndingCancel          // a person's cancel: abort and exit handlers still run
	EndingNow             // cancel --now, or a second cancel: no handlers
	EndingRefused         // EvRefuse: nothing runs, no handlers, the verdict is failed
)
