package dagrun

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events. Each comment lists the fields of Event that the kind uses besides At. EvQueued is for two kinds of
// tasks. For a task with a Want of a body, Text is the reason why the Want waits. For a task of Held, Text is the text of
// the task Ahead of it, or "" if there is none.
const (
	EvBegin      EventKind = iota // the drive starts: attempts recorded as running are lost, tasks that may start are offered
	EvTick                        // time has passed; step one at Ready.WakeAt at the latest
	EvGranted                     // Task: the gate granted a Want of the task
	EvStarted                     // Task, Attempt: the body is under way, its timeout counts from At
	EvFinished                    // Task, Attempt, Result: the body (in TaskFinishing: the publish) ended at At
	EvWaits                       // Task, Attempt, Until, Ref, Text: an opened body waits; Until 0 = unknown, Text = the reason
	EvProbed                      // Task, Result: the cache's answer; nil = miss
	EvLost                        // Task, Attempt, Text: this driver gave the attempt up (drain, self-fence)
	EvSettled                     // Task, Attempt, Result: before EvBegin only: a former driver's result, settled, not recorded
	EvDriveLimit                  // Text: before EvBegin only: too many drives were lost, end the run by the rules
	EvRefuse                      // Text: end the run as failed at once (invalid params, a record the store cannot take)
	EvDrain                       // start nothing more; when nothing runs, leave
	EvControl                     // Control
	EvQueued                      // Task, Text: a ready task has waited for a while, and its row should show why
)

// Event is one thing that happened, at a database time. At is the time when it happened, even if the caller learned of it
// later and has stepped events with a later At before. At decides whether a body ended in time.
type Event struct {
	Kind    EventKind
	At      Time
	Task    TaskID
	Attempt int
	Result  *Result
	Until   Time
	Ref     string
	Text    string
	Control *Control
}

// Result is the end of a body. The zero value is success without outputs. After an Unstarted result the caller drains, or
// grants nothing more.
type Result struct {
	Kind        FailureKind // KindNone: the body succeeded
	ExitCode    int         // valid if HasExit; 128+n for signal n
	HasExit     bool
	Signal      int
	Outputs     JSON   // an object, "" for none; dropped unless the attempt succeeds
	Reason      string // for people; derived from the kind when empty
	Permanent   bool   // on_error and retry_policy may not retry the body
	Settled     bool   // the outputs and the body's effects are durable already: limits and requests come too late
	SnoozeUntil Time   // the body has not ended for good: the next attempt starts at this time, outside the retry budget
	Unstarted   bool   // with KindLost: the host could not start the body, so on_lost does not apply
}

// Verb is the kind of a Control.
type Verb uint8

// The verbs of controls. A nil Task addresses the run.
const (
	VerbCancel     Verb = iota // run (Now skips handlers; so does a second cancel) or task
	VerbPause                  // run or task
	VerbResume                 // run or task
	VerbRetry                  // run: opens Generation; Mode, and Task.Step for RetryFrom and RetryStep (Task.Item narrows to one item)
	VerbApprove                // task, Outputs
	VerbReject                 // task, Text
	VerbMark                   // task, As (TaskSucceeded, TaskFailed or TaskSkipped), Outputs
	VerbChildEnded             // task, Ref, Result: the child run ended
)

// RetryMode selects the tasks that a retry of a finished run resets.
type RetryMode uint8

// Retry modes.
const (
	RetryFailed RetryMode = iota // failed, upstream_failed and canceled tasks and all tasks that depend on them
	RetryFrom                    // a step and all steps that depend on it
	RetryStep                    // one step alone
	RetryAll
)

// Control is a request to the run from outside. Each is decided exactly once, by a Decision with the same ID.
type Control struct {
	ID         int64
	Verb       Verb
	By         string
	Task       *TaskID
	Now        bool
	Mode       RetryMode
	Generation int // VerbRetry: the generation that the retry opened
	As         State
	Outputs    JSON
	Ref        string
	Result     *Result // VerbChildEnded
	Text       string
	Decides    []string // steps: the reserved approvals that By may decide
}
