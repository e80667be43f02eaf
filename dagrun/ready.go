package dagrun

import (
	"slices"
)

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events. Each comment lists the fields of Event that the kind uses besides At. EvQueued is for two kinds of
// tasks. For a task with a Want, Text is the reason why the Want waits. For a task of Held, Text is the text of the task Ahead of
// it, or "" if there is none.
const (
	EvBegin      EventKind = iota // the drive starts: attempts recorded as running are lost, tasks that may start are offered
	EvTick                        // time has passed; step one at Ready.WakeAt at the latest
	EvGranted                     // Task: the worker granted a Want of the task
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
	EvQueued                      // Task, Text: a ready task, or a publish, has waited for a while, and its row should show why
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
	Permanent   bool   // the body must not start again: no retry, no lost attempt and no pause may repeat it
	Settled     bool   // the outputs and the body's effects are durable already: limits and requests come too late
	SnoozeUntil Time   // the body has not ended for good: the next attempt starts at this time, outside the retry budget
	Unstarted   bool   // with KindLost: the host could not start the body, so on_lost does not apply
	Stderr      string // of a failure: the end of what the body wrote there, if expressions of its step refer to it
}

// Verb is the kind of a Control.
type Verb uint8

// The verbs of controls. A nil Task addresses the run.
const (
	VerbCancel     Verb = iota // run (Now skips handlers; so does a second cancel) or task
	VerbPause                  // run or task
	VerbResume                 // run or task
	VerbRetry                  // run: opens Generation, 0 = the run is under way; Mode, and Task.Step for RetryFrom and RetryStep (Task.Item narrows to one item)
	VerbApprove                // task, Outputs
	VerbReject                 // task, Text
	VerbMark                   // task, As (TaskSucceeded, TaskFailed or TaskSkipped), Outputs
	VerbChildEnded             // task, Ref, Result: the child run ended
)

// RetryMode selects the tasks that a retry resets. A run that is under way takes only a mode that names a step.
type RetryMode uint8

// Retry modes.
const (
	RetryFailed RetryMode = iota // failed, upstream_failed and canceled tasks and all tasks that depend on them
	RetryFrom                    // a step and all steps that depend on it
	RetryStep                    // one step alone; in a run under way with the dependants that it kept from starting
	RetryAll
)

// NamesStep reports whether a retry in this mode names the step to repeat.
func (m RetryMode) NamesStep() bool { return m == RetryFrom || m == RetryStep }

// Control is a request to the run from outside. Each is decided exactly once, by a Decision with the same ID.
type Control struct {
	ID         int64
	Verb       Verb
	By         string
	Task       *TaskID
	Now        bool
	Mode       RetryMode
	Generation int // VerbRetry: the generation that the retry opened; 0: none, because the run is under way
	As         State
	Outputs    JSON
	Ref        string
	Result     *Result // VerbChildEnded
	Text       string
	Decides    []string // steps: the reserved approvals that By may decide
	Refusal    string   // the caller has found that the request cannot be met, and says why; "": the core decides
}

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
	Marked       State // with RequestMark: the requested state; in a final state: set if a person asked for the end of this very task
	NextAt       Time  // TaskRetrying: the next attempt; TaskWaiting: open again
	Deadline     Time  // TaskWaiting: the time of its timeout
	Ref          string
	CacheKey     string  // if this record's state is succeeded: store the outputs in the cache under this key
	Growth       *Growth // the items or replacements of the task
	ResetBy      int64   // ID of the control that reset the task last; 0: none, or the ID of its foreach node or replaced task
	ResetFrom    State   // the state that this control found the task in
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
	Inputs    JSON
	Approvers []string
}

// LogGoesOn reports whether the body has succeeded and its publish, which writes to the same log, is still to come.
func (t *TaskRecord) LogGoesOn() bool {
	return t.State == TaskFinishing || t.State == TaskRetrying && t.Publishing
}

// Growth holds the items of a foreach node, or the replacements of a replaced task.
type Growth struct {
	Generation int   // an item's or replacement's row of an older generation is history: only its attempt number counts on
	ResetBy    int64 // ResetBy of the task when it grew: a row with a lower one is history, too
	Items      []Item
	Rule       int // index in OnError of the replaced task's step
	FirstAlt   int
	Count      int
	Choices    []Choice // the replacements by data, Count of them; nil: the rule says which
	Stderr     string   // of the attempt that was replaced, see Result
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

// Want asks the worker for the slots and the pools that a task needs before it may start.
type Want struct {
	Task     TaskID
	Slots    int       // 0 for a publish
	Pools    []PoolUse // of the step: the caller must not change them
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

// batch collects the records and actions that the caller has not acknowledged yet, and remembers what Ready showed last.
type batch struct {
	seq       int64
	changes   []change
	pinned    []*task // targets of controls that reset tasks of a run under way: their rows come first
	fresh     []*task // reset in a run under way: not judged before Advance
	attempts  []AttemptRecord
	decisions []Decision
	notes     []Note
	actions   []action
	wants     []*task
	drops     []TaskID
	leave     *Leave
	verdict   *Verdict

	out      Ready // its buffers are reused
	shown    bool  // Ready was called, and no event was stepped since then
	shownRun RunRecord
	saved    RunRecord // the run's row as last acknowledged
}

// change is one change of a task. Ready shows only the latest change of each task.
type change struct {
	task *task
	seq  int64
}

// action is an Action with its task, so that Ready can leave out actions that have become pointless.
type action struct {
	Action
	task *task
}

// Ready shows what the caller must do now, and reports whether there is anything to do. The result is valid until the next Step or
// Advance, and the caller must not change it. After the end of the drive it is empty. WakeAt is valid even if there is nothing to
// do. It is the present time if expressions were so costly that some tasks are not judged yet: the next event of any kind continues
// with them, because each Ready gives expressions a new budget. Apart from that Ready changes nothing, and may be called again.
func (r *Run) Ready() (Ready, bool) {
	if r.over {
		return Ready{}, false
	}
	out := &r.out
	r.shown, r.spent = true, 0
	r.showRecords(&out.Records)
	r.showActions()
	r.showWants()
	out.Drops = r.drops
	out.Leave, out.Result, out.WakeAt = r.leave, r.verdict, 0
	if r.leave == nil && r.verdict == nil {
		out.WakeAt = r.wakeAt()
	}
	rec := &out.Records
	something := len(rec.Tasks)+len(rec.Attempts)+len(rec.Controls)+len(rec.Notes)+len(out.Actions)+len(out.Wants)+len(out.Drops) > 0 ||
		rec.Run != nil || out.Leave != nil || out.Result != nil
	return *out, something
}

// showRecords fills rec with all records that are not acknowledged yet. A task that changed several times is listed once, at the
// place of its latest change; pinned tasks come before all others, see resetLive. The row of the run is listed if anything but its
// counters differs from the row that was last acknowledged.
func (r *Run) showRecords(rec *Records) {
	rec.Tasks = slices.Grow(rec.Tasks[:0], len(r.changes))
	for _, t := range r.pinned {
		rec.Tasks = append(rec.Tasks, t.row())
	}
	for _, c := range r.changes {
		if c.task.Seq == c.seq && !c.task.pinned {
			rec.Tasks = append(rec.Tasks, c.task.row())
		}
	}
	rec.Tasks = r.leaveOut(rec.Tasks)
	rec.Attempts, rec.Controls, rec.Notes, rec.Run = r.attempts, r.decisions, r.notes, nil
	r.shownRun = r.record()
	if !sameRun(r.shownRun, r.saved) {
		rec.Run = &r.shownRun
	}
}

// row returns the task's row as it is to be stored.
func (t *task) row() TaskRecord {
	row := t.TaskRecord
	row.Asks = t.question()
	return row
}

// sameRun reports whether two rows are equal apart from their counters. A change of counters alone is not worth a write.
func sameRun(a, b RunRecord) bool {
	a.Counts, a.Tolerated = b.Counts, b.Tolerated
	return a == b
}

// showActions lists the actions that are not acknowledged yet. It leaves out actions that later events have made pointless, such as
// the start of an attempt that has ended, see useful.
func (r *Run) showActions() {
	r.out.Actions = slices.Grow(r.out.Actions[:0], len(r.actions))
	for _, a := range r.actions {
		if r.useful(&a) {
			r.out.Actions = append(r.out.Actions, a.Action)
		}
	}
}

// useful reports whether the caller still has to perform an action: the cache has not answered, the attempt has not ended, or the
// body or child run to be stopped is still under way.
func (r *Run) useful(a *action) bool {
	t := a.task
	if a.Kind == ActProbe {
		return t.phase == phaseProbing
	}
	if t.Attempt != a.Attempt {
		return false
	}
	switch a.Kind {
	case ActStart:
		return a.Publish && t.phase == phasePublishing || !a.Publish && t.phase == phaseRunning
	case ActOpen:
		return t.phase == phaseOpening
	default: // ActKill, ActCancelChild: a refused run does not wait for the task to end
		return t.underWay() || t.childRuns() || r.rec.Ending == EndingRefused && t.State == TaskCanceled
	}
}

// showWants lists the wants that are not acknowledged yet and not withdrawn, best first.
func (r *Run) showWants() {
	r.out.Wants = slices.Grow(r.out.Wants[:0], len(r.wants))
	slices.SortFunc(r.wants, byUrgency)
	for _, t := range r.wants {
		if t.phase == phaseOffered || t.phase == phaseQueuedPublish {
			r.out.Wants = append(r.out.Wants, t.want())
		}
	}
}

// want returns the task's request for slots and pools: for its publish if the task waits for that, and else for its body.
func (t *task) want() Want {
	w := Want{Task: t.ID, Priority: t.priority, Since: t.since}
	if t.phase == phaseQueuedPublish {
		w.Publish, w.Pools = true, t.step.PublishPools
		return w
	}
	w.Slots, w.Pools = max(t.step.Slots, 1), t.step.Pools
	return w
}

// Advance acknowledges that everything the last Ready showed is stored. The caller may then perform the actions, which it has
// copied. If the last Ready showed a Leave or a Result, the drive is over. Advance does nothing if an event was stepped after that
// Ready, because Ready has not shown the consequences of the event.
func (r *Run) Advance() {
	if !r.shown {
		return
	}
	r.shown = false
	for _, t := range r.wants {
		t.listed = false
		t.told = t.phase == phaseOffered || t.phase == phaseQueuedPublish
	}
	if r.out.Records.Run != nil {
		r.saved = r.shownRun
	}
	r.over = r.leave != nil || r.verdict != nil
	r.refresh()
	clear(r.changes)
	r.changes, r.attempts, r.decisions, r.notes = r.changes[:0], r.attempts[:0], r.decisions[:0], r.notes[:0]
	clear(r.actions)
	r.actions, r.wants, r.drops = r.actions[:0], r.wants[:0], r.drops[:0]
}
