package dagspec

// Spec is a DAG as its file describes it: defaults filled in, `defaults:` merged into the steps.
type Spec struct {
	Name           string            `json:"name"`
	Description    string            `json:"description,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Queue          string            `json:"queue"`
	Priority       int               `json:"priority"`
	WorkerSelector map[string]string `json:"worker_selector,omitempty"`
	MaxActiveRuns  int               `json:"max_active_runs,omitempty"`  // 0 = no limit
	MaxActiveSteps int               `json:"max_active_steps,omitempty"` // 0 = no limit
	Timeout        Duration          `json:"timeout,omitempty"`          // of the whole run, waiting and paused time excluded
	QueueTimeout   Duration          `json:"queue_timeout,omitempty"`
	FailFast       bool              `json:"fail_fast,omitempty"`
	OnLost         string            `json:"on_lost"` // retry or fail, for steps without on_lost
	MaxDrives      int               `json:"max_drives"`
	ParamDefs      []Param           `json:"params,omitempty"`
	Allow          Allow             `json:"allow,omitzero"`
	Env            map[string]string `json:"env,omitempty"`
	Secrets        []Secret          `json:"secrets,omitempty"`
	WorkingDir     string            `json:"working_dir,omitempty"`
	Shell          []string          `json:"shell,omitempty"`
	Schedule       []Schedule        `json:"schedule,omitempty"`
	Retention      Retention         `json:"retention"`
	HandlerOn      Handlers          `json:"handler_on,omitzero"`
	Steps          []Step            `json:"steps"`
}

// Param is one input of a run.
type Param struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"` // string, integer, number, boolean or json
	Default     any      `json:"default,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Enum        []any    `json:"enum,omitempty"`
	Minimum     *float64 `json:"minimum,omitempty"`
	Maximum     *float64 `json:"maximum,omitempty"`
	MinLength   *int     `json:"min_length,omitempty"`
	MaxLength   *int     `json:"max_length,omitempty"`
	Pattern     string   `json:"pattern,omitempty"`
	Description string   `json:"description,omitempty"`
}

// Allow lists what a submitter may override, and whether a submitter may manage schedules of its own for the DAG.
type Allow struct {
	Queue     bool `json:"queue,omitempty"`
	Priority  bool `json:"priority,omitempty"`
	Selector  bool `json:"selector,omitempty"`
	Schedules bool `json:"schedules,omitempty"`
}

// Secret is a value that the worker reads right before a body starts. From is "" if a step refers to a secret of the DAG by
// name.
type Secret struct {
	Name string `json:"name"`
	From string `json:"from"` // env, file or command
	Key  string `json:"key"`  // the variable's name, the file's path, or the key that the worker's command gets
}

// StepSecrets are the secrets that a body gets as variables.
type StepSecrets struct {
	All  bool // all secrets of the DAG
	List []Secret
}

// Schedule starts runs by time: one of Cron, Every and At is set. Times are RFC 3339, converted to UTC; "" means not given.
// Its JSON is always a map, which oarlock.put_dag reads.
type Schedule struct {
	Name           string            `json:"name"` // the schedule's identity within the DAG; not given: the timing's text
	Cron           string            `json:"cron,omitempty"`
	Every          Duration          `json:"every,omitempty"`
	At             string            `json:"at,omitempty"`
	Timezone       string            `json:"timezone"` // of Cron, and of the dates and cron expressions of Except
	Start          string            `json:"start,omitempty"`
	End            string            `json:"end,omitempty"` // exclusive
	Except         []string          `json:"except,omitempty"`
	Jitter         Duration          `json:"jitter,omitempty"`
	Params         map[string]any    `json:"params,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Enabled        bool              `json:"enabled"`                    // false: the schedule is checked and otherwise ignored
	OverlapPolicy  string            `json:"overlap_policy"`             // skip, all, latest, cancel or allow; not given: skip, with Catchup all
	AtOnce         int               `json:"at_once"`                    // unfinished runs from which on OverlapPolicy applies
	PauseOnFailure int               `json:"pause_on_failure,omitempty"` // failed runs in a row that pause the schedule; 0: never
	Catchup        bool              `json:"catchup,omitempty"`
	CatchupWindow  Duration          `json:"catchup_window,omitempty"` // 0: no bound
	CatchupMax     int               `json:"catchup_max,omitempty"`    // 0 without Catchup
}

// Retention is how long finished runs are kept; 0 = no limit.
type Retention struct {
	Days     int `json:"days"`
	Runs     int `json:"runs"`
	LogsDays int `json:"logs_days"`
}

// Handlers run around the steps. Their steps have no ID.
type Handlers struct {
	Init    *Step `json:"init,omitempty"`
	Success *Step `json:"success,omitempty"`
	Failure *Step `json:"failure,omitempty"`
	Abort   *Step `json:"abort,omitempty"`
	Exit    *Step `json:"exit,omitempty"`
}

// Step is a step, a handler, a replacement or a publish. The last three have fewer fields: see the definitions handler,
// replacement and publish of the schema.
type Step struct {
	ID          string   `json:"id,omitempty"`
	Name        string   `json:"name,omitempty"`
	Depends     []Depend `json:"depends,omitempty"`
	TriggerRule string   `json:"trigger_rule,omitempty"`
	When        string   `json:"when,omitempty"`

	// The body: one of Run, Command, Action and Result.
	Run     string         `json:"run,omitempty"`
	Command string         `json:"command,omitempty"`
	Args    []string       `json:"args,omitempty"`
	Action  string         `json:"action,omitempty"`
	With    map[string]any `json:"with,omitempty"`
	Result  *Result        `json:"result,omitempty"`

	Shell      []string          `json:"shell,omitempty"`
	Stdin      *Stdin            `json:"stdin,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	Secrets    *StepSecrets      `json:"secrets,omitempty"` // nil: not given
	WorkingDir string            `json:"working_dir,omitempty"`
	Timeout    *Duration         `json:"timeout,omitempty"` // nil: not given; 0: none
	Kill       *Kill             `json:"kill,omitempty"`

	RetryPolicy  *RetryPolicy `json:"retry_policy,omitempty"`
	OnError      []ErrorRule  `json:"on_error,omitempty"`
	ContinueOn   ContinueOn   `json:"continue_on,omitzero"`
	SkipExitCode []int        `json:"skip_exit_code,omitempty"`
	OnLost       string       `json:"on_lost,omitempty"`

	Outputs       []Output          `json:"outputs,omitempty"`
	Foreach       *Foreach          `json:"foreach,omitempty"`
	Publish       *Step             `json:"publish,omitempty"`
	Pool          *string           `json:"pool,omitempty"` // nil: not given; "": none
	Slots         int               `json:"slots,omitempty"`
	Precomputable bool              `json:"precomputable,omitempty"`
	Priority      Priority          `json:"priority,omitzero"`
	Labels        map[string]string `json:"labels,omitempty"`
	Cache         *Cache            `json:"cache,omitempty"`

	names *names // of a step in a Graph: the names that its texts may use
}

// Depend is one dependency; State is succeeded, finished or started.
type Depend struct {
	Step  string `json:"step"`
	State string `json:"state"`
}

// Result is a precomputed result: nothing runs.
type Result struct {
	ExitCode int            `json:"exit_code"`
	Outputs  map[string]any `json:"outputs,omitempty"`
}

// Stdin is the input of a body: a text, an output by its reference (steps.x.outputs.y), or a file.
type Stdin struct {
	Text   string `json:"text,omitempty"`
	Output string `json:"output,omitempty"`
	File   string `json:"file,omitempty"`
}

// Kill is how a body is stopped.
type Kill struct {
	Signal    string   `json:"signal"`
	Grace     Duration `json:"grace"`
	Leftovers string   `json:"leftovers,omitempty"` // keep: processes that the body left behind stay alive
}

// RetryPolicy limits and spaces the attempts after a failed one.
type RetryPolicy struct {
	Limit       int      `json:"limit,omitempty"`
	Interval    Duration `json:"interval"`
	Backoff     float64  `json:"backoff"`
	MaxInterval Duration `json:"max_interval"`
	Jitter      float64  `json:"jitter"`
	ExitCode    []int    `json:"exit_code,omitempty"`
	Kinds       []string `json:"kinds,omitempty"` // none: exit, timeout, signal, spawn, http, sql, panic
}

// ErrorRule is one entry of on_error.
type ErrorRule struct {
	When string `json:"when,omitempty"` // none: always
	Do   string `json:"do"`             // retry, fail, skip, continue or replace
	With []Step `json:"with,omitempty"`
}

// ContinueOn tolerates failures and skips that would keep the children from starting.
type ContinueOn struct {
	Failure     bool  `json:"failure,omitempty"`
	Skipped     bool  `json:"skipped,omitempty"`
	ExitCode    []int `json:"exit_code,omitempty"`
	MarkSuccess bool  `json:"mark_success,omitempty"`
}

// Output is a declared output; Type is string, json or number.
type Output struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Foreach makes one task per item, or one per Batch items.
type Foreach struct {
	Items         Items  `json:"items"`
	As            string `json:"as"`
	Key           string `json:"key,omitempty"`
	Batch         int    `json:"batch"`
	MaxConcurrent int    `json:"max_concurrent"` // 0 = no limit
	MaxItems      int    `json:"max_items"`
	FailFast      bool   `json:"fail_fast,omitempty"`
}

// Items is a list, or one reference to a list.
type Items struct {
	List []any
	Ref  string
}

// Priority is a number or an expression.
type Priority struct {
	Value int
	Expr  string
}

// Cache keeps the outputs of a success under a key.
type Cache struct {
	Key   string   `json:"key"`
	TTL   Duration `json:"ttl,omitempty"` // 0 = for good
	Scope string   `json:"scope"`         // submitter: for runs of the same submitter; dag: for all runs of the DAG
}

// Shared reports whether runs of other submitters may use the outputs too.
func (c *Cache) Shared() bool { return c.Scope == "dag" }
