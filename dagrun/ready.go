package dagrun

// Ready is the work that the caller must do now; the package comment gives the order. The caller takes back Drops before it
// looks at Wants, because a task may be in both.
type Ready struct {
	Records Records
	Actions []Action
	Wants   []Want   // newly runnable since the last Advance, best first: priority, then time ready, then graph order
	Drops   []TaskID // wants shown before the last Advance that are withdrawn (cancelled, paused, drained)
	WakeAt  Time     // step an EvTick at this time; 0 = none. Valid even if there is nothing else to do
	Leave   *Leave   // the drive ends with this commit and the run goes on later
	Result  *Verdict // the drive ends with this commit and the run is over
}

// Records are durable facts, one per row. Every prefix of Tasks is consistent.
type Records struct {
	Tasks    []TaskRecord
	Attempts []AttemptRecord // attempts that a later attempt replaced
	Controls []Decision
	Notes    []Note
	Run      *RunRecord // nil when the run's own row did not change
}

// TaskRecord is the whole stored row of a task. Within a drive the record with the highest Seq is the current one.
type TaskRecord struct {
	ID           TaskID
	Seq          int64
	Generation   int
	State        State
	Attempt      int // counts on across generations
	Reason       string
	Kind         FailureKind
	ExitCode     int
	HasExit      bool
	Signal       int
	Outputs      JSON
	Tolerated    bool // failed, but its children may start
	Retries      int  // retries used in this generation, out of the retry budget
	PublishTries int
	Publishing   bool // in TaskRetrying: the next try is of the publish, not of the body
	Request      Request
	RequestBy    string
	Marked       State // with RequestMark: the requested state
	NextAt       Time  // TaskRetrying: the next attempt; TaskWaiting: open again
	Deadline     Time  // TaskWaiting: the time of its timeout
	Ref          string
	CacheKey     string  // if this record's state is succeeded: store the outputs in the cache under this key
	Growth       *Growth // the items or replacements of the task
	StartedAt    Time    // first attempt of this generation; also set for a task that succeeds without a body
	AttemptAt    Time    // start of this attempt
	FinishedAt   Time

	// Asks is the change to the question that an approval asks people. Only records from Ready have it; nil leaves the
	// stored question as it is.
	Asks *Asks
}

// Asks opens or closes the question of an approval. The question is open as long as its task waits.
type Asks struct {
	Open      bool
	Prompt    string // at most MaxPromptBytes
	Inputs    []Input
	Approvers []string
}

// LogGoesOn reports whether the body has succeeded and its publish, which writes to the same log, is still to come.
func (t *TaskRecord) LogGoesOn() bool {
	return t.State == TaskFinishing || t.State == TaskRetrying && t.Publishing
}

// Growth holds the items of a foreach node, or the replacements of a replaced task.
type Growth struct {
	Generation int // an item's or replacement's row of an older generation is history: only its attempt number counts on
	Items      []Item
	Rule       int // index in OnError of the replaced task's step
	FirstAlt   int
	Count      int
}

// AttemptRecord is a finished attempt that is no longer the task's latest.
type AttemptRecord struct {
	ID         TaskID
	Attempt    int
	Generation int
	State      State // TaskSucceeded, TaskFailed, TaskPaused or TaskCanceled; snoozed attempts are TaskWaiting
	Kind       FailureKind
	ExitCode   int
	HasExit    bool
	Signal     int
	Reason     string
	StartedAt  Time
	FinishedAt Time
}

// Outcome is the kind of a Decision.
type Outcome string

// The outcomes of a control. An accepted control takes effect after a later commit.
const (
	Applied  Outcome = "applied"
	Accepted Outcome = "accepted"
	Refused  Outcome = "refused"
)

// Decision answers a Control.
type Decision struct {
	ID      int64
	Outcome Outcome
	State   string // of the task or run that the control addressed, in the words of State.String
	Message string // why the control was refused, and what to do instead
}

// Note is an entry for the run's own log.
type Note struct {
	At   Time
	Kind string // e.g. "skip", "lost", "priority", "control"
	Task *TaskID
	Text string
}

// RunRecord is the part of the run's row that the core owns.
type RunRecord struct {
	State      RunState
	Reason     string
	Generation int
	Ending     Ending
	EndingBy   string
	EndingText string
	PausedBy   string // "" = not paused
	StartedAt  Time
	FinishedAt Time
	Deadline   Time     // time of the run's timeout while a driver has the run
	Left       Duration // rest of the run's timeout while the run is parked; 0 without a timeout
	WakeAt     Time     // RunWaiting: the time when a driver is needed again; 0 = only once a control comes
	Tolerated  int
	Counts     Counts // counts all known tasks
}

// Counts holds the number of tasks by outcome. Total is the sum of the others.
type Counts struct {
	Total, Open, Succeeded, Failed, Skipped, UpstreamFailed, Canceled, Replaced int
}

// Leave ends a drive before the run ends.
type Leave struct {
	Drained bool // true: the run goes back to the queue for the next driver; false: the run is parked
	WakeAt  Time
}

// Verdict is the end of a generation of the run.
type Verdict struct {
	State     RunState
	Reason    string
	Tolerated int
}

// ActionKind is the kind of an Action.
type ActionKind uint8

// The kinds of actions, with the fields of Action that each uses.
const (
	ActStart       ActionKind = iota // Task, Attempt, Publish: run the body (or the publish)
	ActOpen                          // Task, Attempt, Ref: begin or take up a wait or a child run
	ActKill                          // Task, Attempt, Cause, Now: end the body; EvFinished still has to come
	ActCancelChild                   // Task, Ref, Now
	ActProbe                         // Task, Key: look in the cache, answer with EvProbed
)

// Action is something that the caller performs once the records are durable. Performing an action twice must do no harm.
type Action struct {
	Kind    ActionKind
	Task    TaskID
	Attempt int
	Publish bool
	Cause   Request
	Now     bool // without grace
	Ref     string
	Key     string
}

// Want asks the worker's gate for the slots or the pool that a task needs before it may start.
type Want struct {
	Task     TaskID
	Slots    int // 0 for a publish
	Pool     string
	Priority int
	Since    Time
	Publish  bool
}

// Saved is the stored state of a run, from which Restore continues. It needs no decided controls.
type Saved struct {
	Run   RunRecord
	Tasks []TaskRecord // in any order; Seq is ignored
}

// Options configure a run. They must be the same in every drive of the run.
type Options struct {
	Context     any               // handed to expressions
	Seed        uint64            // makes the jitter of retries reproducible
	Precomputed map[string]Result // results by step name, given at enqueue: such a step needs no body
	Generation  int               // 0 counts as 1
	ParkAfter   Duration          // shortest wait for which the run gives its claim back; 0 counts as 30 s
	TimeText    func(Time) string // formats a time in reasons; nil: as the span since 1970
}
