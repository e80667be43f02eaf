package dagrun

// EventKind says what happened.
type EventKind uint8

// Events. Each says which fields of Event it uses besides At.
const (
	EvBegin      EventKind = iota // the drive starts: attempts still recorded as running are lost, what may start is offered
	EvTick                        // time has passed; step one at Ready.WakeAt at the latest
	EvGranted                     // Task: the gate gave what a Want asked for
	EvStarted                     // Task, Attempt: the body is under way, its timeout counts from At
	EvFinished                    // Task, Attempt, Result: the body (in TaskFinishing: the publish) ended at At, before its deadline or not
	EvWaits                       // Task, Attempt, Until, Ref, Text: an opened body waits; Until 0 = unknown, Text = why
	EvProbed                      // Task, Result: the cache's answer; nil = miss
	EvLost                        // Task, Attempt, Text: this driver gave the attempt up (drain, self-fence)
	EvSettled                     // Task, Attempt, Result: before EvBegin only: a former driver's result that was settled but not recorded
	EvDriveLimit                  // Text: before EvBegin only: too many drives were lost, end the run by the rules
	EvRefuse                      // Text: end the run as failed at once (invalid params, a record the store cannot take)
	EvDrain                       // start nothing more; when nothing runs, leave
	EvControl                     // Control
	EvQueued                      // Task, Text: a Want of a body has waited for a while; the text says what for. Or one of Held: with the text of the task Ahead of it, or without
)

// Event is one thing that happened, at a database time. The caller may hear of it late: At is when it happened, also when the
// run has seen later events. It decides whether a body ended in time.
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

// Result is how a body ended. The zero value is success without outputs.
type Result struct {
	Kind        FailureKind // KindNone: the body succeeded
	ExitCode    int         // counts when HasExit; 128+n for signal n
	HasExit     bool
	Signal      int
	Outputs     JSON   // an object, "" for none; dropped unless the attempt succeeds
	Reason      string // for people; made up from the kind when empty
	Permanent   bool   // on_error and retry_policy may not retry it
	Settled     bool   // its outputs are durable already, with what the body did: too late for a limit or a request
	SnoozeUntil Time   // not an end: start the next attempt then, outside the retry budget
	Unstarted   bool   // of KindLost: the caller's host could not start the body, so on_lost has no say. The caller drains, or grants no more
}

// Verb of a control.
type Verb uint8

// Controls. Task is the zero-valued *TaskID (nil) for the run.
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

// RetryMode says what a retry of a finished run resets.
type RetryMode uint8

// Retry modes.
const (
	RetryFailed RetryMode = iota // failed, upstream_failed and canceled tasks and what depends on them
	RetryFrom                    // a step and all that depends on it
	RetryStep                    // a step alone
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
	Generation int // VerbRetry: the generation it opened
	As         State
	Outputs    JSON
	Ref        string
	Result     *Result // VerbChildEnded
	Text       string
	Decides    []string // approvals, by step, that By may decide though they are reserved
}
