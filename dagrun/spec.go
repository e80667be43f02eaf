package dagrun

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
	MaxReplacements = 10      // of one step or item
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
	Prompt    Text // nil: none
	Inputs    []Input
	Approvers []string // empty: every user with the right to control the run
}

// Input is a value that an approval asks its approver for.
type Input struct {
	Name     string
	Required bool
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
)

// ErrorRule is one entry of on_error. The first entry with a When that holds decides.
type ErrorRule struct {
	When Condition // nil: always
	Do   Do
	With []Step // DoReplace: bodies of the replacements; Name, Depends, Rule, Foreach unused
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
	Failure() (Failure, bool)          // inside on_error
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
}

// RunView is the run as expressions see it, above all the expressions of handlers. State is the verdict so far.
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
