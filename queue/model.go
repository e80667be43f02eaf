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

// Run is a run as people see it. Zero times and empty texts stand for what is not there.
type Run struct {
	ID          RunID
	UID         uuid.UUID // never changes, and no other run has it, in any installation
	DAG         string
	Version     int
	Generation  int
	State       string // of LANGUAGE: scheduled, queued, running, waiting, paused, succeeded, failed, canceled
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

	Schedule          string    // the name of the schedule that made the run, "" where none did
	PreviousLogicalAt time.Time // the time of that schedule before LogicalAt

	Actor string // for whom SubmittedBy asked, where that login signs people in; "": for itself
}

// AskedBy is who asked for the run, as other records have it.
func (r *Run) AskedBy() string {
	if r.Actor == "" {
		return r.SubmittedBy
	}
	return r.Actor + " via " + r.SubmittedBy
}

// Over says whether the run has ended. A retry opens it again.
func (r *Run) Over() bool { return !r.FinishedAt.IsZero() }

// Task is a task as people see it.
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
	StartedAt     time.Time // of its first attempt
	AttemptAt     time.Time // when its last attempt began; zero: none did, or the next one is still to begin
	FinishedAt    time.Time
	Approval      *Question // while it waits for approval
	Items         int       // of a foreach step, as Tasks and StepSummaries read it: how many its list has; 0: none, or not known yet
}

// Question is what an approval asks of people.
type Question struct {
	Prompt    string // with its references filled in; "" for none
	Inputs    []Input
	Approvers []string // nil: whoever may control the run
	MayDecide bool     // the user who reads it may
	Since     time.Time
	Deadline  time.Time // it times out then
}

// Approval is one that waits for a decision.
type Approval struct {
	Run         RunID
	DAG         string
	Step        string
	Item        string
	SubmittedBy string

	Question
}

// Result is how a run ended, and what its steps put out.
type Result struct {
	State      string
	Reason     string
	Tolerated  int
	Outputs    map[string]json.RawMessage // by step
	StartedAt  time.Time
	FinishedAt time.Time
}

// Attempt is a finished attempt that a later one superseded.
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

// Event is an entry of the run's own log: who did what, when.
type Event struct {
	ID      int64
	At      time.Time
	Kind    string
	By      string
	Worker  string
	Epoch   int
	Step    string // "" for the run
	Item    string
	Message string
}

// Filter picks runs for List. The zero value picks all.
type Filter struct {
	DAG    string
	States []string
	Queue  string
	Labels map[string]string
	Parent RunID
	Since  time.Time // created at or after
	Before RunID     // only older ones: Page.Next of the page before
	Limit  int       // 0: 50, at most 1000
	Look   int       // how many runs are looked through for what no index has; 0: as many as it takes
}

// Page is a part of a list, newest first.
type Page struct {
	Runs []Run
	Next RunID // Filter.Before of the next page, which may be empty; 0: there is none. With Filter.Look a page may have a next one and be short
}

// WorkerInfo is a worker as people see it.
type WorkerInfo struct {
	Worker
	State     WorkerState
	Desired   WorkerState
	Beat      int64
	BeatAt    time.Time
	BeatAge   time.Duration // by the database's clock
	Busy      int           // slots in use
	Waiting   int           // tasks that wait for a slot
	Runs      int           // that it holds
	Unfit     string        // why it claims nothing, as of its last sign of life; "": it claims
	StartedAt time.Time
	EndedAt   time.Time

	UnfitSince time.Time

	Quiet *Quiet // nil: it gives signs of life, or it has ended
}

// Quiet says what becomes of a worker at work that has given no sign of life for a third of its lease, ten seconds at most.
type Quiet struct {
	HasWatcher bool          // another worker is there, which finds it lost and takes over its runs
	TakeoverIn time.Duration // until about when it has; below zero: it is late, as where it had no database meanwhile
}

// Silent says whether a worker that counts as at work gave no sign of life for longer than its lease, by the database's clock. Its runs
// wait until another worker finds it lost.
func (w *WorkerInfo) Silent() bool {
	return (w.State == WorkerLive || w.State == WorkerDraining) && w.TTL > 0 && w.BeatAge > w.TTL
}

// Queue is a queue as people see it.
type Queue struct {
	Name       string
	PausedBy   string // "": not paused
	PausedAt   time.Time
	MaxRunning int // 0: no limit
	MaxQueued  int
	Queued     int64         // due and not started
	Running    int64         // claimed by a worker
	Oldest     time.Duration // how long the oldest of Queued has been due
}

// QueueChange says what to change of a queue; nil leaves it.
type QueueChange struct { //nolint:revive // as DAGChange; a bare Change would be anybody's
	Name       string
	Paused     *bool
	MaxRunning *int
	MaxQueued  *int
}

// DAG is a registered DAG as people see it.
type DAG struct {
	Name      string
	Version   int // the current one; of a DAGVersion, that one
	PausedBy  string
	RemovedAt time.Time
	MaxActive int
	Queue     string
	CreatedAt time.Time
	PutAt     time.Time
	PutBy     string
	NextAt    time.Time // when the first of its schedules fires next, in the list of DAGs; zero: none does
}

// DAGFilter picks a page of DAGs.
type DAGFilter struct {
	Find  string // part of the name, in letters of any case; "": all
	After DAGKey // the last DAG of the page before; zero: from the first on
	Limit int    // from 1 to MaxPage
}

// DAGKey is the place of a DAG in the list of all.
type DAGKey struct {
	Removed bool
	Name    string
}

// DAGChange says what to change of a DAG; nil leaves it.
type DAGChange struct {
	Name    string
	Paused  *bool // it takes runs and starts none
	Removed *bool // it takes none
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

// Put says what came of PutDAG.
type Put struct {
	ID      int64
	Version int
	IsNew   bool // else this version was current already
}

// Scale is what an autoscaler needs.
type Scale struct {
	Queued  int64         // runs that are due and not claimed
	Oldest  time.Duration // how long the oldest of them that no pause holds has been due
	Claimed int64         // runs that some worker holds
	Workers int64         // that are live, give signs of life, serve the queue and claim
	Slots   int64         // of these workers; of live ones that claim nothing, those in use; none of quiet ones
	Busy    int64         // slots in use, but for those of quiet workers
	Waiting int64         // tasks that wait for a slot there
	Wanted  int64         // slots that leave nothing waiting: Busy, Waiting, the same of quiet workers, and the queued runs that may start now
}

// Pruned says what a Prune deleted.
type Pruned struct {
	Runs, Keys, LogDays, Workers int64
}

// Definition is a version of a DAG, ready to be driven. It is shared and must not be changed.
type Definition struct {
	Spec  *dagspec.Spec
	Graph *dagrun.Graph
	Path  string // of the file it was put from last, on the host where that was done; "" for none
}

// LogQuery picks chunks of one attempt's log, in their order. Without a Step, what a Store reads is the logs of all tasks
// of the run: ReadLogs one attempt after the other, a LogReader and FollowLogs in the order of their arrival.
type LogQuery struct {
	Run     RunID
	Step    string // as in Ask
	Item    string
	Alt     int
	Attempt int    // 0: the task's latest; FollowLogs goes on with later ones
	From    int    // the number of the first chunk that is wanted
	Limit   int    // 0: as many as the store gives at once; FollowLogs has no limit
	Last    *Chunk // without a Step: the last chunk of the page before

	// For a LogReader and FollowLogs.
	Whole  bool      // all tasks of the Step, its items and replacements; Item and Alt do not count
	Latest bool      // of tasks that have a log at first, the latest attempt and later ones
	Lines  int       // of logs that are there at first, from the chunk on in which the last so many lines may begin; 0: all
	Since  time.Time // of logs that are there at first, what arrived from then on
}

// Request asks for a run. Only DAG is required; docs/sql-api.md, oarlock.enqueue, says what the fields mean.
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
	Manual      bool // asked for by a person: the run shows trigger "manual" instead of "sql"
}

// Bulk asks for many runs of one DAG: all of them or none.
type Bulk struct {
	DAG         string
	Params      []any
	Keys        []string // nil, or one for each; "" for none
	RunAt       time.Time
	Priority    *int
	Queue       string
	Labels      map[string]string
	Selector    map[string]string
	Traceparent string
	Version     int
}

// Ask is a control on its way: a request to a run, or to one task of it.
type Ask struct {
	Run     RunID
	Verb    dagrun.Verb
	Step    string // its name, a replacement's as step~1, a handler's as @exit; "" for the run
	Item    string
	Now     bool             // cancel: without handlers
	Mode    dagrun.RetryMode // retry
	As      dagrun.State     // mark
	Outputs any              // approve and mark: marshalled as a JSON object
	Reason  string           // reject
}

// Control is a request to a run, and what became of it.
type Control struct {
	ID        int64
	Run       RunID
	Verb      dagrun.Verb
	Step      string
	Item      string
	Args      json.RawMessage
	By        string
	At        time.Time
	DecidedAt time.Time // zero: not yet
	Outcome   dagrun.Outcome
	State     string
	Message   string
}

// For turns a stored control into the one the core takes: names into numbers, arguments into fields.
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

func (c *Control) aim(g *dagrun.Graph, core *dagrun.Control) error {
	if c.Step == "" {
		return nil
	}
	id, err := g.ParseTask(c.Step) // without its item, which may look like anything
	if err != nil {
		return err
	}
	id.Item = c.Item
	core.Task = &id
	return nil
}

// controlArgs are the arguments of all verbs.
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

// childResult is how the end of a child run looks to the task that waits for it.
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

// maxChildReason bounds what a reason quotes of a child's, which may quote its own child's.
const maxChildReason = 500

// clipped keeps the end of a long reason: there it says what began it.
func clipped(reason string) string {
	if len(reason) <= maxChildReason {
		return reason
	}
	return "…" + strings.ToValidUTF8(reason[len(reason)-maxChildReason:], "")
}
