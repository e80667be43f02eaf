package dagrun

// Ready is what the caller must do now. See the package comment for the order. Drops are to be taken back before Wants are
// looked at: a task may be in both.
type Ready struct {
	Records Records
	Actions []Action
	Wants   []Want   // newly runnable since the last Advance, best first: priority, then time ready, then graph order
	Drops   []TaskID // wants shown before the last Advance that are withdrawn (cancelled, paused, drained)
	WakeAt  Time     // step an EvTick then; 0 = none. Known even when there is nothing else to do
	Leave   *Leave   // the drive ends with this commit and the run goes on later
	Result  *Verdict // the drive ends with this commit and the run is over
}

// Records are durable facts, one per row. Tasks are in an order whose every prefix is consistent.
type Records struct {
	Tasks    []TaskRecord
	Attempts []AttemptRecord // attempts that a later one superseded
	Controls []Decision
	Notes    []Note
	Run      *RunRecord // nil when the run's own row did not change
}

// TaskRecord is the whole stored row of a task; the latest Seq of a drive wins.
type TaskRecord struct {
	ID           TaskID
	Seq          int64
	Generation   int
	State        State
	Attempt      int // attempts go on across generations
	Reason       string
	Kind         FailureKind
	ExitCode     int
	HasExit      bool
	Signal       int
	Outputs      JSON
	Tolerated    bool // failed, and its children may go on
	Retries      int  // of the retry budget, used in this generation
	PublishTries int
	Publishing   bool // in TaskRetrying: the publish is what is tried again
	Request      Request
	RequestBy    string
	Marked       State // with RequestMark
	NextAt       Time  // TaskRetrying: the next attempt; TaskWaiting: open again
	Deadline     Time  // TaskWaiting: its timeout
	Ref          string
	CacheKey     string  // store the outputs under it when this record says succeeded
	Growth       *Growth // what it grew to
	StartedAt    Time    // first attempt of this generation; set also for what succeeds without a body
	AttemptAt    Time    // start of this attempt
	FinishedAt   Time

	// Asks says what becomes of the question that an approval puts to people. Only records that are to be stored have it;
	// nil leaves what is stored.
	Asks *Asks
}

// Asks opens or closes the question of an approval: it is open as long as its task waits.
type Asks struct {
	Open      bool
	Prompt    string // at most MaxPromptBytes
	Inputs    []Input
	Approvers []string
}

// LogGoesOn says whether the body has succeeded and its publish, which writes to the same log, is still to come.
func (t *TaskRecord) LogGoesOn() bool {
	return t.State == TaskFinishing || t.State == TaskRetrying && t.Publishing
}

// Growth is what a task added to the graph: the items of a foreach node, or the replacements of a replaced task.
type Growth struct {
	Generation int // it grew in: older rows of what it grew are history, and only their attempt numbers go on
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

// Outcome of a control.
type Outcome string

// Outcomes. Accepted: it will come true, but not with this commit.
const (
	Applied  Outcome = "applied"
	Accepted Outcome = "accepted"
	Refused  Outcome = "refused"
)

// Decision answers a Control.
type Decision struct {
	ID      int64
	Outcome Outcome
	State   string // of the task or run it was about, in the words of State.String
	Message string // why it was refused and what to do instead
}

// Note goes into the run's own log.
type Note struct {
	At   Time
	Kind string // e.g. "skip", "lost", "priority", "control"
	Task *TaskID
	Text string
}

// RunRecord is the run's own row, as far as the core owns it.
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
	Deadline   Time     // of the run's timeout while a driver has it
	Left       Duration // of the run's timeout while it is parked; 0 with no timeout
	WakeAt     Time     // RunWaiting: when a driver is needed again, 0 = only when a control comes
	Tolerated  int
	Counts     Counts // of all tasks the run knows of
}

// Counts add up: Total = the sum of the others.
type Counts struct {
	Total, Open, Succeeded, Failed, Skipped, UpstreamFailed, Canceled, Replaced int
}

// Leave says how a drive ends before the run does.
type Leave struct {
	Drained bool // released for the next driver; else parked
	WakeAt  Time
}

// Verdict is the end of a generation.
type Verdict struct {
	State     RunState
	Reason    string
	Tolerated int
}

// ActionKind says what to do.
type ActionKind uint8

// Actions.
const (
	ActStart       ActionKind = iota // Task, Attempt, Publish: run the body (or the publish)
	ActOpen                          // Task, Attempt, Ref: begin or take up a wait, a child run
	ActKill                          // Task, Attempt, Cause, Now: end the body; EvFinished still has to come
	ActCancelChild                   // Task, Ref, Now
	ActProbe                         // Task, Key: look in the cache, answer with EvProbed
)

// Action is something to perform once its records are durable. Performing one twice must do no harm.
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

// Want asks the worker's gate for what a task needs before it may start.
type Want struct {
	Task     TaskID
	Slots    int // 0 for a publish
	Pool     string
	Priority int
	Since    Time
	Publish  bool
}

// Saved is what a store kept of a run: what Restore goes on from. Decided controls are not needed.
type Saved struct {
	Run   RunRecord
	Tasks []TaskRecord // in any order; Seq is ignored
}

// Options of a run. They are fixed for the life of a run, across drives.
type Options struct {
	Context     any               // handed to expressions
	Seed        uint64            // of jitter
	Precomputed map[string]Result // by step name, handed in at enqueue
	Generation  int               // 0 counts as 1
	ParkAfter   Duration          // how long a wait must be to give the claim back; 0 counts as 30 s
	TimeText    func(Time) string // how reasons write a time; nil: as the span since 1970
}
