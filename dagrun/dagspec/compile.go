package dagspec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Graph compiles a checked spec for package dagrun. The Data of each step is a *Step with all inherited fields filled in (shell,
// working_dir, kill, on_lost). The worker adds a shell if neither the step nor the DAG has one. The Data of a replacement also has
// the fields that it takes from the failed step. The spec itself stays as it is. A duration or limit that a param gives is 0 in
// the graph: a run takes the graph of Bind. For a spec that Parse has accepted there is no error.
func (s *Spec) Graph() (*dagrun.Graph, error) {
	spec, err := s.Compile()
	if err != nil {
		return nil, err
	}
	g, err := dagrun.Compile(spec)
	if err != nil {
		return nil, fmt.Errorf("compile DAG %s: %w", s.Name, err)
	}
	return g, nil
}

// Compile returns the spec in the form that dagrun.Compile takes; Graph calls both. The error joins all mistakes, of which a spec
// that Parse has accepted has none.
func (s *Spec) Compile() (dagrun.Spec, error) {
	c := &compiler{spec: s, names: newNames(s), streams: s.streamUses()}
	c.names.valuesOfDAG = map[string]*expression{}
	for _, name := range sortedKeys(s.Env) {
		c.computed(c.names.belowStep(), c.names.valuesOfDAG, "env."+name, s.Env[name], wantValue)
	}
	out := dagrun.Spec{Steps: make([]dagrun.Step, len(s.Steps)), Timeout: s.Timeout.Value.core(), MaxActive: s.MaxActiveSteps.Value, FailFast: s.FailFast}
	for i := range s.Steps {
		step := s.Steps[i]
		out.Steps[i] = c.step(step.ID, &step, c.names.of(&step))
	}
	for _, h := range s.HandlerOn.all() {
		step := *h.step
		out.Handlers = append(out.Handlers, c.step(h.name, &step, c.names.of(&step).at(h.place)))
	}
	return out, errors.Join(c.errs...)
}

type handler struct {
	key, name string
	place     place
	step      *Step
}

// all returns the handlers that the DAG has, in the order in which they run.
func (h *Handlers) all() []handler {
	var list []handler
	for _, x := range []handler{
		{"init", dagrun.InitHandler, inInit, h.Init},
		{"success", dagrun.SuccessHandler, inHandler, h.Success},
		{"failure", dagrun.FailureHandler, inHandler, h.Failure},
		{"abort", dagrun.AbortHandler, inHandler, h.Abort},
		{"exit", dagrun.ExitHandler, inHandler, h.Exit},
	} {
		if x.step != nil {
			list = append(list, x)
		}
	}
	return list
}

// Named returns a step or handler by name, such as load or @exit, or nil if there is none.
func (s *Spec) Named(name string) *Step {
	for i := range s.Steps {
		if s.Steps[i].ID == name {
			return &s.Steps[i]
		}
	}
	for _, h := range s.HandlerOn.all() {
		if h.name == name {
			return h.step
		}
	}
	return nil
}

// compiler collects errors while it compiles. A spec that was checked causes none.
type compiler struct {
	spec  *Spec
	names *names
	errs  []error

	streams streamUses
}

// inherit fills in the fields that a step does not set itself: shell, working_dir and on_lost of the DAG, and the standard kill.
func (c *compiler) inherit(s *Step) {
	if s.Shell == nil {
		s.Shell = c.spec.Shell
	}
	if s.WorkingDir == "" {
		s.WorkingDir = c.spec.WorkingDir
	}
	if s.Kill == nil {
		kill := standardKill
		s.Kill = &kill
	}
	if s.OnLost == "" {
		s.OnLost = c.spec.OnLost
	}
}

// step compiles a step or handler under the given name. It changes s, which must be a copy: it fills in inherited fields, and keeps
// s as the Data of the result. Mistakes go to c.errs.
func (c *compiler) step(name string, s *Step, n *names) dagrun.Step {
	c.inherit(s)
	s.Outputs, s.keepsTail = c.streams.outputs(s), s.namesTail()
	n.env = s.Env
	n.declareSecrets(s.Secrets)
	s.names = n
	c.values(s, n)
	out := dagrun.Step{
		Name: name, Data: s, Body: s.body(), Timeout: s.attemptTimeout().core(),
		Approval: c.approval(s, n), Retry: s.RetryPolicy.core(), ContinueOn: s.ContinueOn.core(), SkipExit: s.SkipExitCode, Priority: s.Priority.Value,
	}
	if out.Body == dagrun.BodyTask && s.Result == nil {
		out.Slots, out.Pools = max(1, s.Slots), s.Pool.core()
	}
	var err error
	if out.OnLost, err = dagrun.ParseOnLost(s.OnLost); err != nil {
		c.errs = append(c.errs, err)
	}
	c.edges(s, &out)
	c.expressions(s, n, &out)
	c.parts(s, n, &out)
	return out
}

// value returns *p, or the zero value if p is nil.
func value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// attemptTimeout returns the timeout of an attempt: with.timeout of an approval if it has one, and else the step's own. 0 means
// none.
func (s *Step) attemptTimeout() Duration {
	if text, ok := s.With["timeout"].(string); ok && s.Action == "approval" {
		if d, err := ParseDuration(text); err == nil {
			return d
		}
	}
	return value(s.Timeout).Value
}

func (c *compiler) edges(s *Step, out *dagrun.Step) {
	for _, d := range s.Depends {
		state, err := dagrun.ParseEdgeState(d.State)
		if err != nil {
			c.errs = append(c.errs, err)
		}
		out.Depends = append(out.Depends, dagrun.Edge{Step: d.Step, State: state})
	}
	if s.TriggerRule != "" {
		rule, err := dagrun.ParseRule(s.TriggerRule)
		if err != nil {
			c.errs = append(c.errs, err)
		}
		out.Rule = rule
	}
}

// expression compiles one of a step's expressions. It returns nil for an empty text, and for a text with mistakes: the first of
// them goes to c.errs, with where as the name of the field.
func (c *compiler) expression(n *names, where, text string, want wanted) *expression {
	if text == "" {
		return nil
	}
	e, problems := n.compile(text, want)
	if len(problems) > 0 {
		c.errs = append(c.errs, fmt.Errorf("step %s: %s: %s", n.self, where, problems[0].msg))
		return nil
	}
	return e
}

func (c *compiler) expressions(s *Step, n *names, out *dagrun.Step) {
	if e := c.expression(n, "when", s.When, wantBool); e != nil {
		out.When, out.WhenPerItem = e, s.Foreach != nil && !n.failure && e.usesItem()
	}
	if e := c.expression(n, "priority", s.Priority.Expr, wantNumber); e != nil {
		out.PriorityExpr = e
	}
	if s.Cache != nil {
		if e := c.expression(n, "cache.key", s.Cache.Key, wantText); e != nil {
			out.CacheKey = cacheKey{e, s.digest(c.spec.Env)}
		}
	}
	if s.Foreach != nil && !n.failure { // see errorRule for a replacement
		outside := *n
		outside.item = ""
		out.Foreach = &dagrun.Foreach{
			Items:         &expander{foreach: s.Foreach, names: n, outside: c.itemsNames(s.Foreach.Items, &outside), key: c.expression(n, "foreach.key", s.Foreach.Key, wantText)},
			MaxConcurrent: s.Foreach.MaxConcurrent.Value, MaxItems: s.Foreach.MaxItems, FailFast: s.Foreach.FailFast,
		}
	}
}

// parts compiles the precomputed result, the publish and the on_error rules of a step into out. It replaces s.Publish by a copy
// that has the fields which it takes from the step.
func (c *compiler) parts(s *Step, n *names, out *dagrun.Step) {
	if s.Result != nil {
		result, err := s.Result.core()
		if err != nil {
			c.errs = append(c.errs, err)
		}
		out.Result = result
	}
	if s.Publish != nil {
		s.Publish = c.publish(s, n)
		out.Publish, out.PublishPools, out.PublishTimeout = true, s.Publish.Pool.core(), value(s.Publish.Timeout).Value.core()
	}
	for i := range s.OnError {
		out.OnError = append(out.OnError, c.errorRule(&s.OnError[i], i, s, n, out))
	}
}

// publish returns a copy of the step's publish, with the fields that it takes from its step and the DAG filled in.
func (c *compiler) publish(s *Step, n *names) *Step {
	p := *s.Publish
	p.Env, p.Secrets = merged(s.Env, p.Env), or(p.Secrets, s.Secrets)
	if p.Shell == nil {
		p.Shell = s.Shell
	}
	if p.WorkingDir == "" {
		p.WorkingDir = s.WorkingDir
	}
	if p.Kill == nil {
		p.Kill = s.Kill
	}
	c.inherit(&p)
	p.names = n.at(inPublish)
	p.names.env = p.Env
	p.names.declareSecrets(p.Secrets)
	p.names.values = nil // an expression may have another type in a publish
	c.values(&p, p.names)
	return &p
}

// merged returns the entries of both maps; over wins. It changes neither, but may return over itself.
func merged(base, over map[string]string) map[string]string {
	if len(base) == 0 {
		return over
	}
	m := maps.Clone(base)
	maps.Copy(m, over)
	return m
}

// replacing returns the replacement s with the fields that it lacks and takes from the failed step: timeout, kill, pool, slots,
// retry_policy, outputs and secrets, and the fields of the body if both bodies are of the same kind. Variables of env are merged,
// and the replacement's own win. Arguments follow those of the failed step if the replacement appends them.
func (s Step) replacing(failed *Step) Step {
	s.ID = failed.ID
	s.Env = merged(failed.Env, s.Env)
	s.Timeout = or(s.Timeout, failed.Timeout)
	s.Kill = or(s.Kill, failed.Kill)
	s.Secrets = or(s.Secrets, failed.Secrets)
	s.RetryPolicy = or(s.RetryPolicy, failed.RetryPolicy)
	if s.Pool == nil {
		s.Pool = failed.Pool
	}
	if s.Slots == 0 {
		s.Slots = failed.Slots
	}
	if s.Outputs == nil {
		s.Outputs = failed.Outputs
	}
	s.takeBody(failed)
	return s
}

// SharedOutput is an output of a step that several replacements of one rule have.
type SharedOutput struct{ Step, Output string }

// SharedOutputs returns the outputs that several replacements of one on_error rule declare or take over, each once for its step. Such
// an output comes from the last replacement that succeeds.
func (s *Spec) SharedOutputs() (shared []SharedOutput) {
	for i := range s.Steps {
		step := &s.Steps[i]
		step.eachBody(func(body *Step) {
			for _, rule := range body.OnError {
				if rule.Do == dagrun.DoAsk.String() {
					continue // which ones start, only a run knows
				}
				for _, name := range rule.sharedOutputs(step) {
					if o := (SharedOutput{step.ID, name}); !slices.Contains(shared, o) {
						shared = append(shared, o)
					}
				}
			}
		})
	}
	return shared
}

// sharedOutputs returns the names of outputs that several replacements of a failed step declare, or take over as commands.
func (rule *ErrorRule) sharedOutputs(failed *Step) (names []string) {
	seen := map[string]bool{}
	for _, with := range rule.With {
		if with.Foreach != nil {
			continue // how many there are, only a run knows
		}
		alt := with.replacing(failed)
		if !alt.executes() && with.Outputs == nil {
			continue // its action need not return the outputs that it takes over
		}
		for _, o := range alt.Outputs {
			if seen[o.Name] {
				names = append(names, o.Name)
			}
			seen[o.Name] = true
		}
	}
	return names
}

// takeBody fills in the fields of the body that s lacks, from the failed step. It does nothing if s has a body of another kind, or
// another action.
func (s *Step) takeBody(failed *Step) {
	if kind := s.kind(); kind != "" && kind != failed.kind() || s.Action != "" && s.Action != failed.Action {
		return
	}
	if s.kind() == "" {
		s.Run, s.Command, s.Action, s.Result = failed.Run, failed.Command, failed.Action, failed.Result
	}
	switch {
	case s.Args.Append:
		s.Args = Args{List: slices.Concat(failed.Args.List, s.Args.List)}
	case s.Args.List == nil:
		s.Args = failed.Args
	}
	if s.With == nil {
		s.With = failed.With
	}
	if s.Shell == nil {
		s.Shell = failed.Shell
	}
	if s.WorkingDir == "" {
		s.WorkingDir = failed.WorkingDir
	}
	s.Stdin = or(s.Stdin, failed.Stdin)
}

// or returns a, or b if a is nil.
func or[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// Needs returns the features that workers must have to execute the DAG, sorted and without duplicates. A DAG with a need
// that no worker serves is refused when it is put: otherwise a run would execute only in part. The needs there are:
//
//	process        a step has run or command
//	action:NAME    a step has this action, built-in or a registered Go function (noop, wait, approval included)
//	publish        a step has publish
//	cache          a step has cache
//	secrets:env      a secret comes from the environment of the worker
//	secrets:file     a secret comes from a file on the worker
//	secrets:command  a secret comes from a program that the worker is configured with
//
// Every worker of any version executes everything else in a DAG file.
func (s *Spec) Needs() []string {
	found := map[string]bool{}
	for i := range s.Steps {
		s.Steps[i].needs(found)
	}
	for _, h := range s.HandlerOn.all() {
		h.step.needs(found)
	}
	for _, secret := range s.AllSecrets() {
		found["secrets:"+secret.From] = true
	}
	return slices.Clip(sortedKeys(found))
}

func (s *Step) needs(found map[string]bool) {
	if s.Run != "" || s.Command != "" {
		found["process"] = true
	}
	if s.Action != "" {
		found["action:"+s.Action] = true
	}
	if s.Cache != nil {
		found["cache"] = true
	}
	if s.Publish != nil {
		found["publish"] = true
		s.Publish.needs(found)
	}
	for _, rule := range s.OnError {
		for _, body := range rule.bodies() {
			body.needs(found)
		}
	}
}

// Starts returns the names of the DAGs that the DAG starts by dag.run and dag.enqueue, sorted and without duplicates. It
// leaves out a name with references, because only a run can fill it in.
func (s *Spec) Starts() []string {
	found := map[string]bool{}
	for i := range s.Steps {
		s.Steps[i].starts(found)
	}
	for _, h := range s.HandlerOn.all() {
		h.step.starts(found)
	}
	return slices.Clip(sortedKeys(found))
}

func (s *Step) starts(found map[string]bool) {
	name, _ := s.With["dag"].(string)
	if (s.Action == "dag.run" || s.Action == "dag.enqueue") && name != "" && !strings.Contains(name, "${") {
		found[name] = true
	}
	if s.Publish != nil {
		s.Publish.starts(found)
	}
	for _, rule := range s.OnError {
		for _, body := range rule.bodies() {
			body.starts(found)
		}
	}
}

// WidestStep returns the largest number of slots that a step, handler, publish or replacement needs at once, and at least 1. A
// worker with fewer slots cannot run the whole DAG.
func (s *Spec) WidestStep() int {
	widest := 1
	for i := range s.Steps {
		widest = max(widest, s.Steps[i].widest())
	}
	for _, h := range s.HandlerOn.all() {
		widest = max(widest, h.step.widest())
	}
	return widest
}

func (s *Step) widest() int {
	widest := s.Slots
	if s.Publish != nil {
		widest = max(widest, s.Publish.widest())
	}
	for _, rule := range s.OnError {
		for _, body := range rule.bodies() {
			widest = max(widest, body.widest())
		}
	}
	return widest
}
