package dagrun

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Time is database time in milliseconds since the Unix epoch. It is a separate type so that no local clock is mixed in.
type Time int64

// Duration is a span in milliseconds. As a limit, 0 means none.
type Duration int64

// JSON is one compact JSON value. The core passes it on and never parses it.
type JSON string

// Spec is the input of Compile. Package dagspec makes a Spec from a file; tests make one by hand.
type Spec struct {
	Steps     []Step
	Handlers  []Step   // named InitHandler … ExitHandler, without Depends, Foreach or Rule
	Timeout   Duration // of the whole run, from its first start, parked time excluded
	MaxActive int      // tasks of one run that hold slots at once, 0 = no limit
	FailFast  bool
}

// The names of handlers, as steps of the graph.
const (
	InitHandler    = "@init"
	SuccessHandler = "@success"
	FailureHandler = "@failure"
	AbortHandler   = "@abort"
	ExitHandler    = "@exit"
)

// Limits that Compile and a growing run enforce.
const (
	MaxTasks        = 100_000 // of a run, items and replacements included
	MaxReplacements = 1000    // of one step or item, replacements of replacements included
	MaxWith         = 10      // bodies of one rule of on_error
	MaxKeyBytes     = 200     // of a foreach item
	MaxDepends      = 1_000_000
	MaxPromptBytes  = 4 << 10 // of an approval, with its references filled in; the rest is cut off
)

// Step is one node. Compile refuses fields that make no sense together.
type Step struct {
	Name    string
	Depends []Edge
	Rule    Rule
	When    Condition // nil: always
	Body    Body
	Data    any // the caller's own description of the body; the core never looks at it

	Approval *Approval // of BodyApproval: the question; nil: just a decision

	// WhenPerItem makes a foreach step judge When for each item, and not once for the node.
	WhenPerItem bool
	Foreach     *Foreach
	Result      *Result // precomputed: the step ends with it, without a body or a slot
	CacheKey    Text    // nil: no cache; the cache is asked before a slot is
	Publish     bool    // a second body runs after the first succeeded, in state finishing, without slots

	PublishPools   []PoolUse // pools that the publish needs, all at once
	PublishTimeout Duration  // of one try, from its EvStarted

	Slots        int       // 0 counts as 1 for BodyTask
	Pools        []PoolUse // pools that the body needs, all at once
	Priority     int
	PriorityExpr Number // wins over Priority; an error counts as 0 and leaves a note

	Timeout    Duration // of one attempt, from its EvStarted (slotless bodies: from when they began to wait)
	Retry      RetryPolicy
	OnError    []ErrorRule
	ContinueOn ContinueOn
	SkipExit   []int // exit codes that mean "nothing to do"
	OnLost     OnLost
}

// PoolUse is what a body takes of a pool, which limits bodies for all workers together. The core hands it to the worker as it is.
type PoolUse struct {
	Pool   string
	Key    string // as the DAG has it, with its references; "": the pool counts all together
	Weight int    // above 0
}

// PoolNames names the pools of a step: "pool heavy", "pools heavy, total".
func PoolNames(uses []PoolUse) string {
	names := make([]string, len(uses))
	for i, u := range uses {
		names[i] = u.Pool
	}
	if len(names) == 1 {
		return "pool " + names[0]
	}
	return "pools " + some(names)
}

// Edge is one dependency.
type Edge struct {
	Step  string
	State EdgeState
}

// EdgeState is the state of the parent that a dependency waits for.
type EdgeState uint8

// Edge states, the default first.
const (
	OnSucceeded EdgeState = iota // the parent settled (body and publish)
	OnFinished                   // satisfied from TaskFinishing on
	OnStarted                    // satisfied for good once the parent has started
)

// Body is the kind of work that a step is for its worker.
type Body uint8

// Bodies, the default first.
const (
	BodyTask     Body = iota // takes slots, is started by ActStart, ends with EvFinished
	BodyNoop                 // succeeds by itself
	BodyWait                 // ActOpen; the caller answers EvWaits with Until, or EvFinished; opened again at Until
	BodyApproval             // waits for a VerbApprove or VerbReject control, or until its Timeout
	BodyChild                // ActOpen makes a child run; EvWaits with Ref names it; a VerbChildEnded control ends it
)

// Approval is the question of an approval step to the people that decide it.
type Approval struct {
	Prompt    Text     // nil: none
	Inputs    JSON     // the values that it asks its approver for, in the form of the store, which checks them; "": none
	Approvers []string // empty: every user with the right to control the run
}

// Rule is a trigger rule: it decides by the direct parents of a step whether the step starts.
type Rule uint8

// Trigger rules, the default first. "always" is another name of AllDone.
const (
	AllSuccess Rule = iota
	AllDone
	AllFailed
	OneSuccess
	OneFailed
	OneDone
	NoneFailed
	NoneFailedMinOneSuccess
	NoneSkipped
)

// OnLost is the reaction to an attempt that was lost with its driver.
type OnLost uint8

// The reactions to a lost attempt, the default first.
const (
	LostRetry OnLost = iota // start the next attempt, outside the retry budget
	LostFail                // fail the task with KindLost: on_error and the rest apply
)

// Foreach makes one task per item. The node itself (item "") takes no slot.
type Foreach struct {
	Items         Expander
	MaxConcurrent int // 0 = no limit
	MaxItems      int // 0 = no limit but MaxTasks
	FailFast      bool
}

// Item is one element of a foreach step.
type Item struct {
	Key   string // unique in its node, 1 to MaxKeyBytes bytes
	Value JSON
}

// RetryPolicy limits and spaces the attempts after a failed one.
type RetryPolicy struct {
	Limit       int // attempts after the first
	Interval    Duration
	Backoff     float64 // factor per retry, < 1 counts as 1
	MaxInterval Duration
	Jitter      float64       // ± share of the interval, added after MaxInterval
	ExitCodes   []int         // when not empty, a failure of kind exit is retried only with these
	Kinds       []FailureKind // nil: every kind but output, config, publish, lost, rejected, child
}

// Do is the action of an ErrorRule.
type Do uint8

// The actions of error rules.
const (
	DoRetry    Do = iota // overrides the policy's ExitCodes and Kinds; Limit counts
	DoFail               // fails the task for good
	DoSkip               // the task is skipped
	DoContinue           // failed and tolerated
	DoReplace            // With takes its place
	DoAsk                // Ask takes its place, and then those of With that Chooser reads from the outputs of Ask
)

// ErrorRule is one entry of on_error. The first entry with a When that holds decides.
type ErrorRule struct {
	When Condition // nil: always
	Do   Do
	With []Step // bodies of the replacements; Name, Depends and Rule unused, and of Foreach all but Items and MaxItems

	Ask     *Step // DoAsk: the body that chooses; it is replacement 1
	Chooser Chooser
}

// Choice is one replacement by data: which body takes the place of a failed task, and its item.
type Choice struct {
	With  int  // index in With of the rule
	Value JSON // "": no item
}

// Chooser reads from the outputs of a body which replacements are to start. An error fails that body.
type Chooser interface {
	Choose(outputs JSON) ([]Choice, error)
}

// ContinueOn tolerates failures and skips that would keep the children from starting.
type ContinueOn struct {
	Failed      bool
	Skipped     bool
	ExitCodes   []int
	MarkSuccess bool // a tolerated failure is shown as succeeded, reason "marked"
}

// Condition is a compiled boolean expression: a pure function of what its Scope returns.
type Condition interface {
	Eval(Scope) (bool, error)
	String() string
}

// Number is a compiled expression that returns a priority.
type Number interface{ Number(Scope) (int, error) }

// Text is a compiled expression that returns a string.
type Text interface{ Text(Scope) (string, error) }

// Expander returns the items of a foreach step.
type Expander interface{ Expand(Scope) ([]Item, error) }

// Scope is the run as an expression of one task sees it.
type Scope interface {
	Context() any                      // Options.Context: params and the identity of the run
	Step(name string) (StepView, bool) // any step of the graph
	Items(name string) []StepView      // of a foreach step, in index order; nil before its items exist
	Item() (Item, bool)                // of the task itself
	Failure() (Failure, bool)          // inside on_error, and of a replacement the failure that it replaces
	Run() RunView
}

// Spender is a Scope that counts the cost of expressions, in units of about 5 ns of work. The same expression over the same
// values has the same cost on every machine.
type Spender interface{ Spend(units int) }

// StepView is a step or an item as expressions see it. Outputs are "" unless the step or item has succeeded.
type StepView struct {
	State    State
	Outputs  JSON
	ExitCode int
	HasExit  bool
	Attempt  int
	Item     string
	Alt      int        // of an entry of Replaced
	Replaced []StepView // the replacements of the step in order of Alt, except those that were replaced themselves
}

// RunView is the run as expressions see it, above all the expressions of handlers. State is the verdict so far.
type RunView struct {
	State      RunState
	Failed     []string // task names that failed and were not tolerated, in order of failure
	Generation int
}

// Failure describes a failed attempt to the conditions of on_error, and to the replacements of its task.
type Failure struct {
	Kind     FailureKind
	ExitCode int
	Signal   int
	Attempt  int
	Message  string   // the reason of the task
	Duration Duration // from the start of the attempt to its end
	Stderr   string   // see Result
	Chosen   []JSON   // items that replacements by data gave to the tasks which this task replaces, in order; last its own
}

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

// Terminal reports whether a task in this state has ended. Only a retry of the run, which opens a new generation, starts such a
// task again. A replaced task is final as well: its replacements go on in its place.
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

// Terminal reports whether a run in this state has ended. Only a retry, which opens a new generation, starts it again.
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

// Names of constants. Each table is in the order of its constants.
var (
	stateNames = []string{
		"pending", "ready", "running", "finishing", "retrying", "waiting", "paused",
		"succeeded", "failed", "skipped", "upstream_failed", "canceled", "replaced",
	}
	runStateNames = []string{"queued", "running", "waiting", "paused", "succeeded", "failed", "canceled"}
	ruleNames     = []string{
		"all_success", "all_done", "all_failed", "one_success", "one_failed", "one_done",
		"none_failed", "none_failed_min_one_success", "none_skipped",
	}
	edgeStateNames = []string{"succeeded", "finished", "started"}
	bodyNames      = []string{"task", "noop", "wait", "approval", "child"}
	onLostNames    = []string{"retry", "fail"}
	doNames        = []string{"retry", "fail", "skip", "continue", "replace", "ask"}
	requestNames   = []string{"none", "pause", "cancel", "timeout", "mark"}
	endingNames    = []string{"none", "fail_fast", "init", "timeout", "drives", "cancel", "now", "refused"}
	eventNames     = []string{
		"begin", "tick", "granted", "started", "finished", "waits", "probed", "lost",
		"settled", "drive_limit", "refuse", "drain", "control", "queued",
	}
	verbNames      = []string{"cancel", "pause", "resume", "retry", "approve", "reject", "mark", "child_ended"}
	retryModeNames = []string{"failed", "from", "step", "all"}
	actionNames    = []string{"start", "open", "kill", "cancel_child", "probe"}
)

func (s State) String() string      { return word(stateNames, s) }
func (s RunState) String() string   { return word(runStateNames, s) }
func (rule Rule) String() string    { return word(ruleNames, rule) }
func (s EdgeState) String() string  { return word(edgeStateNames, s) }
func (b Body) String() string       { return word(bodyNames, b) }
func (o OnLost) String() string     { return word(onLostNames, o) }
func (d Do) String() string         { return word(doNames, d) }
func (r Request) String() string    { return word(requestNames, r) }
func (e Ending) String() string     { return word(endingNames, e) }
func (k EventKind) String() string  { return word(eventNames, k) }
func (v Verb) String() string       { return word(verbNames, v) }
func (m RetryMode) String() string  { return word(retryModeNames, m) }
func (k ActionKind) String() string { return word(actionNames, k) }

// ParseState parses the output of State.String.
func ParseState(s string) (State, error) { return parse[State]("task state", stateNames, s) }

// ParseRunState parses the output of RunState.String.
func ParseRunState(s string) (RunState, error) { return parse[RunState]("run state", runStateNames, s) }

// ParseEdgeState parses the output of EdgeState.String.
func ParseEdgeState(s string) (EdgeState, error) {
	return parse[EdgeState]("edge state", edgeStateNames, s)
}

// ParseBody parses the output of Body.String.
func ParseBody(s string) (Body, error) { return parse[Body]("body", bodyNames, s) }

// ParseOnLost parses the output of OnLost.String.
func ParseOnLost(s string) (OnLost, error) { return parse[OnLost]("on_lost", onLostNames, s) }

// ParseDo parses the output of Do.String.
func ParseDo(s string) (Do, error) { return parse[Do]("do", doNames, s) }

// ParseRequest parses the output of Request.String.
func ParseRequest(s string) (Request, error) { return parse[Request]("request", requestNames, s) }

// ParseEnding parses the output of Ending.String.
func ParseEnding(s string) (Ending, error) { return parse[Ending]("ending", endingNames, s) }

// ParseEventKind parses the output of EventKind.String.
func ParseEventKind(s string) (EventKind, error) { return parse[EventKind]("event", eventNames, s) }

// ParseVerb parses the output of Verb.String.
func ParseVerb(s string) (Verb, error) { return parse[Verb]("verb", verbNames, s) }

// ParseRetryMode parses the output of RetryMode.String.
func ParseRetryMode(s string) (RetryMode, error) {
	return parse[RetryMode]("retry mode", retryModeNames, s)
}

// ParseActionKind parses the output of ActionKind.String.
func ParseActionKind(s string) (ActionKind, error) {
	return parse[ActionKind]("action", actionNames, s)
}

// ParseRule parses the output of Rule.String. It also accepts "always", which is another name of all_done.
func ParseRule(s string) (Rule, error) {
	if s == "always" {
		return AllDone, nil
	}
	return parse[Rule]("trigger rule", ruleNames, s)
}

// word returns the name of a constant, or unknown(7) if the table ends before the constant.
func word[T ~uint8](words []string, v T) string {
	if int(v) < len(words) {
		return words[v]
	}
	return fmt.Sprintf("unknown(%d)", uint8(v))
}

// parse returns the constant with the name s from a table of names. If there is none, the error names the kind of constant, which
// is in what, and lists all names.
func parse[T ~uint8](what string, words []string, s string) (T, error) {
	i := slices.Index(words, s)
	if i < 0 {
		return 0, fmt.Errorf("%s %q is unknown: use one of %s", what, s, strings.Join(words, ", "))
	}
	return T(i), nil
}

// TaskName formats a task for people: step, step/item, step~1, step/item~2, where the number is the replacement's. An item with a
// key that itself ends in ~ and a number gets ~0 behind it, so that ParseTask reads every name back. For a step that the graph does
// not have, TaskName returns unknown(7).
func (g *Graph) TaskName(id TaskID) string {
	if id.Step < 0 || id.Step >= g.Len() {
		return fmt.Sprintf("unknown(%d)", id.Step)
	}
	name := g.StepName(id.Step)
	if id.Item != "" {
		name += "/" + id.Item
	}
	if id.Alt != 0 || endsLikeAlt(id.Item) {
		name += "~" + strconv.Itoa(id.Alt)
	}
	return name
}

// ParseTask reads a name that TaskName has formatted. It returns an error if the graph has no such step, or if the key of the item
// is empty. It does not check that a run has the item or the replacement.
func (g *Graph) ParseTask(name string) (TaskID, error) {
	rest, alt := cutAlt(name)
	step, item, hasItem := strings.Cut(rest, "/")
	i, ok := g.index[step]
	if !ok {
		return TaskID{}, fmt.Errorf("task %q: no step is named %q", name, step)
	}
	if hasItem && item == "" {
		return TaskID{}, fmt.Errorf("task %q: the item after the slash is empty", name)
	}
	return TaskID{Step: i, Item: item, Alt: alt}, nil
}

// endsLikeAlt reports whether an item's key ends in ~ and a number. TaskName then writes ~0 after the key, because ParseTask would
// take the end of the key for the number of a replacement.
func endsLikeAlt(key string) bool {
	rest, _ := cutAlt(key)
	return rest != key
}

// cutAlt cuts a trailing ~ with a decimal number off s, and returns the number as alt. If s does not end in such a number, or the
// number needs more than 31 bits, cutAlt returns s unchanged and 0.
func cutAlt(s string) (rest string, alt int) {
	i := strings.LastIndexByte(s, '~')
	if i < 0 {
		return s, 0
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 31)
	if err != nil {
		return s, 0
	}
	return s[:i], int(n)
}
