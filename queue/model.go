package queue

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// Run is a run as shown to users. Zero times and empty texts mean that there is no value.
type Run struct {
	ID          RunID
	UID         uuid.UUID // never changes, and is unique across all installations
	DAG         string
	Version     int
	Generation  int
	State       string // a word of LANGUAGE: scheduled, queued, running, waiting, paused, succeeded, failed, canceled
	Reason      string
	Tolerated   int
	Queue       string
	Priority    int
	Params      json.RawMessage
	Labels      map[string]string
	Key         string
	Trigger     string
	Epoch       int
	Worker      string
	SubmittedBy string
	Parent      RunID
	Root        RunID
	RetryOf     RunID
	Counts      dagrun.Counts
	RunAt       time.Time
	LogicalAt   time.Time
	CreatedAt   time.Time
	StartedAt   time.Time
	FinishedAt  time.Time

	Schedule          string    // name of the schedule that made the run; "": no schedule did
	PreviousLogicalAt time.Time // fire time of that schedule before LogicalAt

	Quiet bool // its worker gives no sign of life, or the database was away until a moment ago; set by Get and Watch alone

	Actor string // the person for whom SubmittedBy made the request, if that login signs people in; "": the login itself
}

// AskedBy returns the requester of the run for people: "Actor via SubmittedBy", or SubmittedBy alone if the run has no Actor.
// Other records name a requester in the same form.
func (r *Run) AskedBy() string {
	if r.Actor == "" {
		return r.SubmittedBy
	}
	return r.Actor + " via " + r.SubmittedBy
}

// Over reports whether the run has ended. A retry starts it again.
func (r *Run) Over() bool { return !r.FinishedAt.IsZero() }

// Task is a task as shown to users.
type Task struct {
	Step          string
	Item          string
	Kind          string // step, foreach, handler or replacement
	State         string
	Reason        string
	FailureKind   string
	ExitCode      *int
	Attempt       int
	Outputs       json.RawMessage
	Worker        string
	Replaces      string
	NextAttemptAt time.Time
	StartedAt     time.Time // of the task's first attempt
	AttemptAt     time.Time // when its last attempt began; zero: none began, or the next one has still to begin
	FinishedAt    time.Time
	Approval      *Question // set while the task waits for approval
	Items         int       // of a foreach step, filled in by Tasks and StepSummaries: length of its list; 0: no items, or not known yet
}

// Question is the question that an approval asks.
type Question struct {
	Prompt    string // with its references filled in; "": none
	Inputs    []dagspec.Param
	Approvers []string // nil: every user that may control the run
	MayDecide bool     // the reading user may decide
	Since     time.Time
	Deadline  time.Time // when the approval times out
}

// Approval is an approval that waits for a decision.
type Approval struct {
	Run         RunID
	DAG         string
	Step        string
	Item        string
	SubmittedBy string

	Question
}

// Result is how a run ended, with the outputs of its steps.
type Result struct {
	State      string
	Reason     string
	Tolerated  int
	Outputs    map[string]json.RawMessage // by step
	StartedAt  time.Time
	FinishedAt time.Time
}

// Attempt is a finished attempt that a later attempt superseded.
type Attempt struct {
	Step, Item  string
	Attempt     int
	Generation  int
	State       string
	FailureKind string
	ExitCode    *int
	Signal      int
	Reason      string
	Worker      string
	StartedAt   time.Time
	FinishedAt  time.Time
}

// Event is an entry in the history of a run: an action, its time and its actor.
type Event struct {
	ID      int64
	At      time.Time
	Kind    string
	By      string
	Worker  string
	Epoch   int
	Step    string // "": the event is about the run
	Item    string
	Message string
}

// Filter selects runs for List. The zero value selects all.
type Filter struct {
	DAG    string
	States []string
	Queue  string
	Labels map[string]string
	Parent RunID
	Since  time.Time // only runs created at this time or later
	Before RunID     // only older runs: Page.Next of the page before
	Limit  int       // 0: 50, at most 1000
	Look   int       // how many runs to search for conditions that no index has; 0: as many as necessary
}

// Page is a part of a list, newest first.
type Page struct {
	Runs []Run
	Next RunID // Filter.Before of the next page, which may be empty; 0: no next page. With Filter.Look a short page may have one too
}

// WorkerInfo is a worker as shown to users.
type WorkerInfo struct {
	Worker
	State     WorkerState
	Desired   WorkerState
	Beat      int64
	BeatAt    time.Time
	BeatAge   time.Duration // time since its last sign of life, by the database's clock
	Busy      int           // slots in use
	Waiting   int           // tasks that wait for a slot
	Runs      int           // runs that it holds
	Unfit     string        // why it claims nothing, as of its last sign of life; "": it claims
	StartedAt time.Time
	EndedAt   time.Time

	UnfitSince time.Time

	Quiet *Quiet // nil: the worker shows signs of life, or it has ended
}

// Quiet describes a worker that counts as working but has shown no sign of life for a third of its lease, or for ten seconds if
// that is less.
type Quiet struct {
	HasWatcher bool          // another worker watches it, and will find it lost and take over its runs
	TakeoverIn time.Duration // estimated time until the takeover; negative: it is late, for example because the watcher had no database
}

// Silent reports whether a worker that counts as working has shown no sign of life for longer than its lease, by the database's
// clock. Its runs wait until another worker finds it lost.
func (w *WorkerInfo) Silent() bool {
	return (w.State == WorkerLive || w.State == WorkerDraining) && w.TTL > 0 && w.BeatAge > w.TTL
}

// Queue is a queue as shown to users.
type Queue struct {
	Name       string
	PausedBy   string // "": not paused
	PausedAt   time.Time
	MaxRunning int // 0: no limit
	MaxQueued  int
	Queued     int64         // runs that are due and not started
	Running    int64         // runs claimed by a worker
	Oldest     time.Duration // since the RunAt of the oldest of the Queued runs; also a run that was parked or retried
}

// QueueChange describes a change of a queue. A nil field leaves the queue's value as it is.
type QueueChange struct { //nolint:revive // named as DAGChange is; the name Change alone would fit anything
	Name       string
	Paused     *bool
	MaxRunning *int
	MaxQueued  *int
}

// DAG is a registered DAG as shown to users.
type DAG struct {
	Name      string
	Version   int // the current version; in a DAGVersion, that version
	PausedBy  string
	RemovedAt time.Time
	MaxActive int
	Queue     string
	CreatedAt time.Time
	PutAt     time.Time
	PutBy     string
	NextAt    time.Time // in the list of DAGs, when the first of its schedules fires next; zero: none fires
}

// DAGFilter selects a page of DAGs.
type DAGFilter struct {
	Find  string // part of the name, case-insensitive; "": all DAGs
	After DAGKey // the last DAG of the page before; zero: begin at the first
	Limit int    // from 1 to MaxPage
}

// DAGKey is the position of a DAG in the list of all DAGs.
type DAGKey struct {
	Removed bool
	Name    string
}

// DAGChange describes a change of a DAG. A nil field leaves the DAG's value as it is.
type DAGChange struct {
	Name    string
	Paused  *bool // the DAG takes runs and starts none
	Removed *bool // the DAG takes no runs
	Oldest  *int  // versions before it are retired
}

// DAGVersion is one version of a DAG.
type DAGVersion struct {
	DAG
	ID         int64 // of the DAG
	Current    int   // the version that new runs get
	Spec       json.RawMessage
	Source     string
	SourcePath string
	Hash       string
	Needs      []string
}

// Put is the result of PutDAG.
type Put struct {
	ID      int64
	Version int
	IsNew   bool // false: this version was current already
}

// Scale is what an autoscaler needs to know.
type Scale struct {
	Queued  int64         // runs that are due and not claimed
	Oldest  time.Duration // since the RunAt of the oldest of these runs that no pause holds back; also a run that was parked or retried
	Claimed int64         // runs that a worker holds
	Workers int64         // workers that are live, show signs of life, serve the queue and claim runs
	Slots   int64         // slots of Workers, and the used slots of live workers that claim nothing; without quiet workers
	Busy    int64         // used slots, without those of quiet workers
	Waiting int64         // tasks that wait for a slot on these workers
	Wanted  int64         // slots needed so that nothing waits: Busy, Waiting, both of quiet workers too, and queued runs that may start now
}

// Pruned is what a Prune deleted.
type Pruned struct {
	Runs, Keys, LogDays, Workers int64
}

// Definition is a version of a DAG, ready to be driven. It is shared, so callers must not change it.
type Definition struct {
	Spec  *dagspec.Spec
	Graph *dagrun.Graph
	Path  string // of the file that it was last put from, on the host of that PutDAG; "": none

	bound *boundGraph // nil: no param gives a duration or a limit of the Spec
}

// LogQuery selects chunks of one attempt's log, in their order. Without a Step, a Store reads the logs of all tasks of the run:
// ReadLogs one attempt after the other, a LogReader and FollowLogs in the order of arrival.
type LogQuery struct {
	Run     RunID
	Step    string // as in Ask
	Item    string
	Alt     int
	Attempt int    // 0: the task's latest attempt; FollowLogs then goes on with later ones
	From    int    // number of the first wanted chunk
	Limit   int    // 0: as many as the store gives at once; FollowLogs has no limit
	Last    *Chunk // without a Step: the last chunk of the page before

	// The fields below are for a LogReader and FollowLogs.
	Whole  bool      // read all tasks of the Step, its items and replacements; Item and Alt are ignored
	Latest bool      // of each task that has a log at first, read the latest attempt and later ones
	Lines  int       // of logs that exist at first, begin at the chunk in which the last so many lines may begin; 0: read all
	Since  time.Time // of logs that exist at first, read what arrived at this time or later
}

// Request is a request for a run. Only DAG is required. docs/sql-api.md, oarlock.enqueue, explains the fields.
type Request struct {
	DAG         string
	Params      any // marshalled as JSON; json.RawMessage as it is
	Key         string
	RunAt       time.Time
	Priority    *int
	Queue       string
	Labels      map[string]string
	Selector    map[string]string
	LogicalAt   time.Time
	Traceparent string
	Precomputed json.RawMessage
	Version     int
	Manual      bool // a person made the request: the run shows trigger "manual" instead of "sql"
}

// Bulk is a request for many runs of one DAG. Either all of them are made or none.
type Bulk struct {
	DAG         string
	Params      []any
	Keys        []string // nil, or one for each run; "": no key
	RunAt       time.Time
	Priority    *int
	Queue       string
	Labels      map[string]string
	Selector    map[string]string
	Traceparent string
	Version     int
}

// Ask is a request to a run or to one task of it. The database stores it as a control.
type Ask struct {
	Run     RunID
	Verb    dagrun.Verb
	Step    string // step name; of a replacement as step~1, of a handler as @exit; "": the request is to the run
	Item    string
	Now     bool             // for cancel: without handlers
	Mode    dagrun.RetryMode // for retry
	As      dagrun.State     // for mark
	Outputs any              // for approve and mark; marshalled as a JSON object
	Reason  string           // for reject
}

// Control is a stored request to a run, with its outcome.
type Control struct {
	ID        int64
	Run       RunID
	Verb      dagrun.Verb
	Step      string
	Item      string
	Args      json.RawMessage
	By        string
	At        time.Time
	DecidedAt time.Time // zero: not decided yet
	Outcome   dagrun.Outcome
	State     string
	Message   string
}

// For converts a stored control for the core: it turns names into numbers of g and arguments into fields. It returns an error if
// g has no such task, or if this version does not know an argument.
func (c *Control) For(g *dagrun.Graph) (*dagrun.Control, error) {
	core := &dagrun.Control{ID: c.ID, Verb: c.Verb, By: c.By}
	if err := c.aim(g, core); err != nil {
		return nil, fmt.Errorf("control %d: %w", c.ID, err)
	}
	if err := c.fill(core); err != nil {
		return nil, fmt.Errorf("control %d: %w", c.ID, err)
	}
	return core, nil
}

// aim sets core.Task to the task of g that c is for. It leaves nil for a control of the whole run.
func (c *Control) aim(g *dagrun.Graph, core *dagrun.Control) error {
	if c.Step == "" {
		return nil
	}
	id, err := g.ParseTask(c.Step) // parsed without its item, which may hold any text
	if err != nil {
		return err
	}
	id.Item = c.Item
	core.Task = &id
	return nil
}

// controlArgs holds the arguments of all verbs.
type controlArgs struct {
	Now        bool            `json:"now"`
	Mode       string          `json:"mode"`
	Generation int             `json:"generation"`
	As         string          `json:"as"`
	Outputs    json.RawMessage `json:"outputs"`
	Reason     string          `json:"reason"`
	Ref        string          `json:"ref"`
	State      string          `json:"state"`
	Decides    []string        `json:"decides"`
}

// fill sets the fields of core from the arguments of c. It returns an error for an argument that it does not know.
func (c *Control) fill(core *dagrun.Control) (err error) {
	var args controlArgs
	if len(c.Args) > 0 {
		if err := json.Unmarshal(c.Args, &args); err != nil {
			return fmt.Errorf("arguments: %w", err)
		}
	}
	core.Now, core.Generation, core.Ref = args.Now, args.Generation, args.Ref
	core.Outputs, core.Text, core.Decides = dagrun.JSON(args.Outputs), args.Reason, args.Decides
	switch c.Verb {
	case dagrun.VerbRetry:
		core.Mode, err = dagrun.ParseRetryMode(args.Mode)
	case dagrun.VerbMark:
		core.As, err = dagrun.ParseState(args.As)
	case dagrun.VerbChildEnded:
		core.Result, err = childResult(args)
	}
	return err
}

// childResult returns the end of a child run, as args tells it, as the result of the task that waits for it. A succeeded child
// gives the outputs {"run_id": N}. Any other end is a failure of kind child.
func childResult(args controlArgs) (*dagrun.Result, error) {
	state, err := dagrun.ParseRunState(args.State)
	if err != nil {
		return nil, err
	}
	if state == dagrun.RunSucceeded {
		return &dagrun.Result{Outputs: dagrun.JSON(`{"run_id":` + args.Ref + `}`)}, nil
	}
	reason := fmt.Sprintf("run %s %s", args.Ref, state)
	if args.Reason != "" {
		reason += ": " + clipped(args.Reason)
	}
	return &dagrun.Result{Kind: dagrun.KindChild, Reason: reason}, nil
}

// maxChildReason bounds how much of a child's reason a reason quotes. The child's reason may quote its own child's in turn.
const maxChildReason = 500

// clipped returns the last maxChildReason bytes of a longer reason, after "…". It keeps the end, because the original cause
// stands there.
func clipped(reason string) string {
	if len(reason) <= maxChildReason {
		return reason
	}
	return "…" + strings.ToValidUTF8(reason[len(reason)-maxChildReason:], "")
}
