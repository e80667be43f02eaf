package dagrun

// Time is database time in milliseconds since the Unix epoch. It is a type of its own so that no wall clock slips in.
type Time int64

// Duration is a span in milliseconds. As a limit, 0 means none.
type Duration int64

// JSON is one compact JSON value. The core carries it and never looks into it.
type JSON string

// Spec is what Compile turns into a Graph. Package dagspec makes it from a file; tests make it by hand.
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
	MaxReplacements = 10      // of one step or item
	MaxKeyBytes     = 200     // of a foreach item
	MaxDepends      = 1_000_000
	MaxPromptBytes  = 4 << 10 // of an approval, with its references filled in; the rest is cut off
)

// Step is one node. Fields that make no sense together are refused by Compile.
type Step struct {
	Name    string
	Depends []Edge
	Rule    Rule
	When    Condition // nil: always
	Body    Body
	Data    any // the caller's own description of the body; carried, never looked into

	Approval *Approval // of BodyApproval: what it asks; nil: just for a decision

	// WhenPerItem: a foreach step judges When for each item, not once for the node.
	WhenPerItem bool
	Foreach     *Foreach
	Result      *Result // precomputed: nothing runs, no slot is taken
	CacheKey    Text    // nil: no cache; asked before a slot is
	Publish     bool    // a second body runs after the first succeeded, in state finishing, without slots
	PublishPool string

	PublishTimeout Duration // of one try, from its EvStarted

	Slots        int // 0 counts as 1 for BodyTask
	Pool         string
	Priority     int
	PriorityExpr Number // wins over Priority; an error counts as 0 and leaves a note

	Timeout    Duration // of one attempt, from its EvStarted (slotless bodies: from when they began to wait)
	Retry      RetryPolicy
	OnError    []ErrorRule
	ContinueOn ContinueOn
	SkipExit   []int // exit codes that mean "nothing to do"
	OnLost     OnLost
}

// Edge is one dependency.
type Edge struct {
	Step  string
	State EdgeState
}

// EdgeState says what a dependency waits for.
type EdgeState uint8

// Edge states, the default first.
const (
	OnSucceeded EdgeState = iota // the parent settled (body and publish)
	OnFinished                   // satisfied from TaskFinishing on
	OnStarted                    // satisfied for good once the parent has started
)

// Body says how a step occupies its worker.
type Body uint8

// Bodies, the default first.
const (
	BodyTask     Body = iota // takes slots, is started by ActStart, ends with EvFinished
	BodyNoop                 // succeeds by itself
	BodyWait                 // ActOpen; the caller answers EvWaits with Until, or EvFinished; opened again at Until
	BodyApproval             // waits for a VerbApprove or VerbReject control, or its Timeout
	BodyChild                // ActOpen makes a child run; EvWaits with Ref names it; a ChildEnded control ends it
)

// Approval describes the question of an approval step to the people who decide it.
type Approval struct {
	Prompt    Text // nil: none
	Inputs    []Input
	Approvers []string // empty: everybody who may control the run
}

// Input is a value that an approval asks for.
type Input struct {
	Name     string
	Required bool
}

// Rule is a trigger rule over direct parents.
type Rule uint8

// Trigger rules, the default first. Always is AllDone under another name.
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

// OnLost says how a task goes on after an attempt whose driver was lost.
type OnLost uint8

// The ways on after a lost attempt, the default first.
const (
	LostRetry OnLost = iota // the next attempt, outside the retry budget
	LostFail                // the task failed (kind lost), then on_error and so on
)

// Foreach makes one task per item. The node itself (item "") takes no slot.
type Foreach struct {
	Items         Expander
	MaxConcurrent int // 0 = no limit
	MaxItems      int // 0 = no limit but MaxTasks
	FailFast      bool
}

// Item is one element of a foreach, in order.
type Item struct {
	Key   string // unique in its node, 1 to MaxKeyBytes bytes
	Value JSON
}

// RetryPolicy bounds and spaces the attempts after a failed one.
type RetryPolicy struct {
	Limit       int // attempts after the first
	Interval    Duration
	Backoff     float64 // factor per retry, < 1 counts as 1
	MaxInterval Duration
	Jitter      float64       // ± share of the interval, added after MaxInterval
	ExitCodes   []int         // when not empty, a failure of kind exit is retried only with these
	Kinds       []FailureKind // nil: every kind but output, config, publish, lost, rejected, child
}

// Do names the action of an ErrorRule.
type Do uint8

// The actions of error rules.
const (
	DoRetry    Do = iota // overrides the policy's ExitCodes and Kinds; Limit counts
	DoFail               // final
	DoSkip               // the task is skipped
	DoContinue           // failed and tolerated
	DoReplace            // With takes its place
)

// ErrorRule is one entry of on_error; the first whose When holds decides.
type ErrorRule struct {
	When Condition // nil: always
	Do   Do
	With []Step // DoReplace: bodies of the replacements; Name, Depends, Rule, Foreach unused
}

// ContinueOn tolerates an end that would stop the children.
type ContinueOn struct {
	Failed      bool
	Skipped     bool
	ExitCodes   []int
	MarkSuccess bool // a tolerated failure is shown as succeeded, reason "marked"
}

// Condition is a compiled expression that must be boolean: a pure function of what the scope shows.
type Condition interface {
	Eval(Scope) (bool, error)
	String() string
}

// Number is a compiled expression that gives a priority.
type Number interface{ Number(Scope) (int, error) }

// Text is a compiled expression that gives a string.
type Text interface{ Text(Scope) (string, error) }

// Expander gives the items of a foreach.
type Expander interface{ Expand(Scope) ([]Item, error) }

// Scope shows an expression the run as one task sees it.
type Scope interface {
	Context() any                      // Options.Context: params and the identity of the run
	Step(name string) (StepView, bool) // any step of the graph
	Items(name string) []StepView      // of a foreach step, in index order; nil before it grew
	Item() (Item, bool)                // of the task itself
	Failure() (Failure, bool)          // inside on_error
	Run() RunView
}

// Spender is a Scope that counts what expressions cost, in units of about 5 ns of work. The same expression over the same
// values costs the same everywhere.
type Spender interface{ Spend(units int) }

// StepView is a step or an item as expressions see it. Outputs are "" unless it succeeded.
type StepView struct {
	State    State
	Outputs  JSON
	ExitCode int
	HasExit  bool
	Attempt  int
	Item     string
}

// RunView is the run as expressions (of handlers, above all) see it: State is the verdict so far.
type RunView struct {
	State      RunState
	Failed     []string // task names that failed and were not tolerated, in order of failure
	Generation int
}

// Failure describes a failed attempt to the conditions of on_error.
type Failure struct {
	Kind     FailureKind
	ExitCode int
	Signal   int
	Attempt  int
}
