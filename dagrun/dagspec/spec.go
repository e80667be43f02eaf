package dagspec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Spec is a DAG as its file describes it: defaults filled in, `defaults:` merged into the steps.
type Spec struct {
	Name           string            `json:"name"`
	Description    string            `json:"description,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Queue          string            `json:"queue"`
	Priority       int               `json:"priority"`
	WorkerSelector map[string]string `json:"worker_selector,omitempty"`
	MaxActiveRuns  int               `json:"max_active_runs,omitempty"` // 0 = no limit
	MaxActiveSteps Count             `json:"max_active_steps,omitzero"` // 0 = no limit
	Concurrency    *Concurrency      `json:"concurrency,omitempty"`
	Timeout        Span              `json:"timeout,omitzero"` // of the whole run, waiting and paused time excluded
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
	Args    Args           `json:"args,omitzero"`
	Action  string         `json:"action,omitempty"`
	With    map[string]any `json:"with,omitempty"`
	Result  *Result        `json:"result,omitempty"`

	Shell      []string          `json:"shell,omitempty"`
	Stdin      *Stdin            `json:"stdin,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	Secrets    *StepSecrets      `json:"secrets,omitempty"` // nil: not given
	WorkingDir string            `json:"working_dir,omitempty"`
	Timeout    *Span             `json:"timeout,omitempty"` // nil: not given; 0: none
	Kill       *Kill             `json:"kill,omitempty"`

	RetryPolicy  *RetryPolicy `json:"retry_policy,omitempty"`
	OnError      []ErrorRule  `json:"on_error,omitempty"`
	ContinueOn   ContinueOn   `json:"continue_on,omitzero"`
	SkipExitCode []int        `json:"skip_exit_code,omitempty"`
	OnLost       string       `json:"on_lost,omitempty"`

	Outputs       []Output          `json:"outputs,omitzero"` // of a replacement: nil takes over those of the failed step, and an empty list has none
	Foreach       *Foreach          `json:"foreach,omitempty"`
	Publish       *Step             `json:"publish,omitempty"`
	Pool          Pools             `json:"pool,omitzero"`
	Slots         int               `json:"slots,omitempty"`
	Precomputable bool              `json:"precomputable,omitempty"`
	Priority      Priority          `json:"priority,omitzero"`
	Labels        map[string]string `json:"labels,omitempty"`
	Cache         *Cache            `json:"cache,omitempty"`

	names     *names // of a step in a Graph: the names that its texts may use
	keepsTail bool   // see KeepsTail
}

// Args are the arguments of a command: a list, or what a replacement adds to the arguments of the failed step.
type Args struct {
	List   []string // nil: not given
	Append bool
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
	Limit       Count    `json:"limit,omitzero"`
	Interval    Span     `json:"interval"`
	Backoff     float64  `json:"backoff"`
	MaxInterval Span     `json:"max_interval"`
	Jitter      float64  `json:"jitter"`
	ExitCode    []int    `json:"exit_code,omitempty"`
	Kinds       []string `json:"kinds,omitempty"` // none: exit, timeout, signal, spawn, http, sql, panic
}

// ErrorRule is one entry of on_error.
type ErrorRule struct {
	When string `json:"when,omitempty"` // none: always
	Do   string `json:"do"`             // retry, fail, skip, continue, replace or ask
	With []Step `json:"with,omitempty"` // of replace and ask
	Ask  *Step  `json:"ask,omitempty"`  // the body that chooses among With
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
	Name     string `json:"name"`
	Type     string `json:"type"`
	From     string `json:"from,omitempty"`     // stdout, stderr, or file: and a path; "": the file $OARLOCK_OUTPUT, or what an action returns
	Optional bool   `json:"optional,omitempty"` // a body may succeed without it

	neededBy string // see NeededBy
}

// Foreach makes one task per item, or one per Batch items.
type Foreach struct {
	Items         Items  `json:"items"`
	As            string `json:"as"`
	Key           string `json:"key,omitempty"`
	Batch         int    `json:"batch"`
	MaxConcurrent Count  `json:"max_concurrent"` // 0 = no limit
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

// Shared reports whether runs of all submitters may use the outputs, and not only runs of the same submitter.
func (c *Cache) Shared() bool { return c.Scope == "dag" }

// Duration is a span in milliseconds, written as in Go, and with d for 24 hours: 90s, 10m, 1d12h.
type Duration int64

// Units in milliseconds.
const (
	second = Duration(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour

	maxDuration = 36500 * day
)

var (
	durationText = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h|d))+$`)
	durationPart = regexp.MustCompile(`([0-9.]+)(ns|us|µs|ms|s|m|h|d)`)
	spelledSpan  = regexp.MustCompile(`^(?:([0-9]{1,9}) ?)?(s|sec|second|m|min|minute|h|hr|hour|d|day|w|week)s?$`)
	milliseconds = map[string]float64{
		"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1,
		"s": float64(second), "m": float64(minute), "h": float64(hour), "d": float64(day),
	}
)

// ParseDuration reads a duration such as 90s or 1d12h, rounded to milliseconds. It refuses numbers without a unit, 0 included,
// spans above 0 and below 1ms, and spans longer than 36500d.
func ParseDuration(s string) (Duration, error) {
	if !durationText.MatchString(s) {
		return 0, fmt.Errorf("%q is not a duration: write a number and a unit, such as 90s, 10m or 1d12h", s)
	}
	total := 0.0
	for _, part := range durationPart.FindAllStringSubmatch(s, -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: %w", s, err)
		}
		total += n * milliseconds[part[2]]
	}
	if total > float64(maxDuration) {
		return 0, fmt.Errorf("%q is too long: at most 36500d", s)
	}
	if total > 0 && total < 1 {
		return 0, errors.New("durations count in milliseconds: at least 1ms, or 0s for none")
	}
	return Duration(math.Round(total)), nil
}

// spelledOut reads a span in a form that people write, such as 5 minutes, minute or 1w, and returns it in the form of
// ParseDuration: 5m, 1m or 7d. It returns false for any other text.
func spelledOut(text string) (duration string, ok bool) {
	parts := spelledSpan.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if parts == nil {
		return "", false
	}
	n, unit := cmp.Or(parts[1], "1"), parts[2][:1]
	if unit == "w" {
		weeks, _ := strconv.Atoi(n)
		n, unit = strconv.Itoa(7*weeks), "d"
	}
	return n + unit, true
}

// String returns the duration with all units that are not 0, from days to milliseconds, such as 1d12h or 1m30s. ParseDuration reads
// it back.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		name string
		size Duration
	}{{"d", day}, {"h", hour}, {"m", minute}, {"s", second}, {"ms", 1}} {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	return b.String()
}

// MarshalText implements encoding.TextMarshaler with String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	*d = parsed
	return err
}

// Std converts the duration for package time.
func (d Duration) Std() time.Duration { return time.Duration(d) * time.Millisecond }

func (d Duration) core() dagrun.Duration { return dagrun.Duration(d) }

func (p *RetryPolicy) core() dagrun.RetryPolicy {
	if p == nil {
		return dagrun.RetryPolicy{}
	}
	out := dagrun.RetryPolicy{
		Limit: p.Limit.Value, Interval: p.Interval.Value.core(), Backoff: p.Backoff, MaxInterval: p.MaxInterval.Value.core(), Jitter: p.Jitter,
		ExitCodes: p.ExitCode,
	}
	for _, k := range p.Kinds {
		out.Kinds = append(out.Kinds, dagrun.FailureKind(k))
	}
	return out
}

func (c ContinueOn) core() dagrun.ContinueOn {
	return dagrun.ContinueOn{Failed: c.Failure, Skipped: c.Skipped, ExitCodes: c.ExitCode, MarkSuccess: c.MarkSuccess}
}

func (r *Result) core() (*dagrun.Result, error) {
	out := &dagrun.Result{ExitCode: r.ExitCode, HasExit: true}
	if r.ExitCode != 0 {
		out.Kind = dagrun.KindExit
	}
	if len(r.Outputs) == 0 {
		return out, nil
	}
	outputs, err := compactJSON(r.Outputs)
	out.Outputs = outputs
	return out, err
}

// builtin describes an action that Oarlock has itself. The schema describes its `with`, under with.NAME.
type builtin struct {
	body     dagrun.Body
	required []string          // keys of with that the action needs
	outputs  map[string]string // outputs that the action always has, by name, with their types
}

var builtins = map[string]*builtin{
	"noop":     {body: dagrun.BodyNoop},
	"wait":     {body: dagrun.BodyWait, required: []string{"duration", "until", "http"}},
	"approval": {body: dagrun.BodyApproval},
	"dag.run":  {body: dagrun.BodyChild, required: []string{"dag"}, outputs: map[string]string{"run_id": "number"}},
	"dag.enqueue": {
		required: []string{"dag"},
		outputs:  map[string]string{"run_id": "number"},
	},
	"river.job": {
		required: []string{"kind"},
		outputs:  map[string]string{"job_id": "number"},
	},
	"http.request": {
		required: []string{"url"},
		outputs:  map[string]string{"status": "number", "headers": "json", "body": "string"},
	},
	"postgres.query": {
		required: []string{"sql"},
		outputs:  map[string]string{"rows": "json", "row_count": "number", "first": "json"},
	},
}

// takesSecrets reports whether the texts under a key of the step's `with` may hold secrets. Only texts that are sent, but neither
// stored nor shown, may.
func (s *Step) takesSecrets(key string) bool {
	return s.Action == "http.request" && (key == "url" || key == "headers" || key == "body")
}

// reserved are the first parts of action names that only Oarlock may use.
var reserved = []string{"http", "postgres", "dag", "river"}

// body returns the kind of body that the core gives the step: by its action if that is built in, and else BodyTask.
func (s *Step) body() dagrun.Body {
	if b := builtins[s.Action]; b != nil {
		return b.body
	}
	return dagrun.BodyTask
}

// kind returns the name of the field that holds the body, or "" if the step has no body.
func (s *Step) kind() string {
	switch {
	case s.Run != "":
		return "run"
	case s.Command != "":
		return "command"
	case s.Action != "":
		return "action"
	case s.Result != nil:
		return "result"
	}
	return ""
}

// Actions returns the names of the actions that Oarlock has itself, sorted. Every other action belongs to a program that embeds a
// worker.
func Actions() []string { return sortedKeys(builtins) }

// Approval returns the question that an approval step asks, with the references of its prompt as they are written. It
// returns nil for any other step.
func (s *Step) Approval() *Approval {
	if s.Action != "approval" {
		return nil
	}
	a := &Approval{Approvers: stringList(s.With["approvers"])}
	a.Prompt, _ = s.With["prompt"].(string)
	a.Inputs = s.inputs()
	return a
}

// Approval is the question that an approval step asks of people.
type Approval struct {
	Prompt    string
	Inputs    []Param
	Approvers []string // empty: every user with the right to control the run
}

// approval returns the question of an approval step for the core, which fills in the prompt when the approval begins to wait. It
// returns nil for any other step.
func (c *compiler) approval(s *Step, n *names) *dagrun.Approval {
	a := s.Approval()
	if a == nil {
		return nil
	}
	out := &dagrun.Approval{Approvers: a.Approvers}
	if len(a.Inputs) > 0 {
		inputs, err := compactJSON(a.Inputs)
		if err != nil {
			c.errs = append(c.errs, err)
		}
		out.Inputs = inputs
	}
	if a.Prompt != "" {
		out.Prompt = &prompt{text: a.Prompt, names: n}
	}
	return out
}

// prompt is a text with references, which are filled in when the approval begins to wait.
type prompt struct {
	text  string
	names *names
}

// Text implements dagrun.Text: it returns the prompt with its references filled in, or an error if one has no value.
func (p *prompt) Text(scope dagrun.Scope) (string, error) {
	v, err := newView(scope, p.names)
	if err != nil {
		return "", err
	}
	defer func() { spent(scope, v.budget) }()
	return v.text("with.prompt", p.text)
}

// cacheKey is the key of a step's cached results: the key that the file gives, after a digest of the step's body. Because of
// the digest, a step that was edited does not find the outputs of its former version.
type cacheKey struct {
	*expression
	body string
}

// Text implements dagrun.Text. The result is the digest of the body, a blank, and the key that the file gives.
func (k cacheKey) Text(scope dagrun.Scope) (string, error) {
	key, err := k.expression.Text(scope)
	if err != nil {
		return "", err
	}
	return k.body + " " + key, nil
}

// digest returns a hash of the step's body, with everything that the body inherits; env is the env of the DAG. It leaves out when
// the step runs, how often it is tried and how long it may take.
func (s *Step) digest(env map[string]string) string {
	text, err := json.Marshal(struct { //nolint:musttag // for a digest: no program reads it back
		Run, Command, Action string
		Args, Shell          []string
		With                 map[string]any
		Stdin                *Stdin
		Secrets              *StepSecrets
		Env                  map[string]string
		WorkingDir           string
		Outputs              []Output
		Publish              *Step
		Foreach              *Foreach
		SkipExit             []int
		Undeclared           []string `json:",omitempty"`
	}{
		s.Run, s.Command, s.Action, s.Args.List, s.Shell, s.With, s.Stdin, s.Secrets, merged(env, s.Env), s.WorkingDir, s.Outputs, s.Publish, s.Foreach, s.SkipExitCode,
		s.undeclared(),
	})
	if err != nil {
		panic(fmt.Sprintf("dagspec: a step that cannot be written as JSON: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
