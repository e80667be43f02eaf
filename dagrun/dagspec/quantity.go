package dagspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Quantity is a duration or a limit of a file: a value, or ${params.x}, which stands for the value that the param has in a run.
type Quantity[T int | Duration] struct {
	Value T      // 0 if Param is set: only Spec.Bind knows it
	Param string // "": the file has the value
}

// String returns the value, or the reference to the param as a file has it.
func (q Quantity[T]) String() string {
	if q.Param != "" {
		return "${params." + q.Param + "}"
	}
	return fmt.Sprint(q.Value)
}

// MarshalJSON writes the reference if there is one, and else the value.
func (q Quantity[T]) MarshalJSON() ([]byte, error) {
	if q.Param != "" {
		return json.Marshal(q.String())
	}
	return json.Marshal(q.Value)
}

// Count is a limit.
type Count = Quantity[int]

// Span is a duration.
type Span = Quantity[Duration]

var paramRef = regexp.MustCompile(`^\$\{\s*params\.([A-Za-z0-9_]+)\s*\}$`)

// fromNode reads the value or the reference.
func (q *Quantity[T]) fromNode(d *decoder, n *node) {
	if d.isParam(n) {
		q.Param = paramRef.FindStringSubmatch(n.text())[1]
	} else if !n.bad {
		d.decode(n, reflect.ValueOf(&q.Value).Elem())
	}
}

// isParam reports whether a value is one ${params.x}. Any other text with a reference is a mistake: isParam adds it to the report,
// and marks the node as bad.
func (r *report) isParam(n *node) bool {
	if paramRef.MatchString(n.text()) {
		return true
	}
	if strings.HasPrefix(n.text(), "${") {
		r.add(n.pos(), "the value must be known when the run starts; a default goes into params:", "only one ${params.NAME} can stand here, not %s", n.text())
		n.bad = true
	}
	return false
}

func (q *Quantity[T]) param() string { return q.Param }

// wants returns the type that the param must have.
func (q *Quantity[T]) wants() string {
	if _, isDuration := any(q).(*Span); isDuration {
		return "string"
	}
	return "integer"
}

// bounds are what a param may give. 0 is refused where it would be no limit, since the DAG asks for one.
type bounds struct{ least, most int }

// read returns the quantity for a value of the param, or why the quantity cannot have it.
func (q *Quantity[T]) read(v any, b bounds) (value T, err error) {
	switch target := any(&value).(type) {
	case *Duration:
		text, ok := v.(string)
		if !ok {
			return value, fmt.Errorf("%s is not a duration: write a text such as 90s, 10m or 1d12h", showValue(v))
		}
		if *target, err = ParseDuration(text); err == nil && *target == 0 && b.least > 0 {
			return value, fmt.Errorf("%s would be no limit", showValue(v))
		}
	case *int:
		i, ok := integer(v)
		if ok && i == 0 && b.least > 0 {
			return value, errors.New("0 would be no limit")
		}
		if !ok || i < int64(b.least) || i > int64(b.most) {
			return value, fmt.Errorf("%s is not a whole number %s", showValue(v), b)
		}
		*target = int(i)
	}
	return value, err
}

func (q *Quantity[T]) check(v any, b bounds) error {
	_, err := q.read(v, b)
	return err
}

// bind takes over the value of the param, which must have passed check.
func (q *Quantity[T]) bind(v any, b bounds) {
	q.Value, _ = q.read(v, b)
	q.Param = ""
}

func (b bounds) String() string {
	if b.most == unlimited {
		return fmt.Sprintf("from %d on", b.least)
	}
	return fmt.Sprintf("from %d to %d", b.least, b.most)
}

// The largest limits that a file may have, as the schema says.
const (
	retryLimitMax = 1000
	unlimited     = math.MaxInt
)

// anyLimit are the bounds of what ends or holds back something.
var anyLimit = bounds{1, unlimited}

// approvalTimeout is the timeout under with: of an approval, which stays a text. It is a quantity like the others.
type approvalTimeout struct {
	Span

	with map[string]any
}

func (t *approvalTimeout) bind(v any, b bounds) {
	t.Span.bind(v, b)
	t.with["timeout"] = t.Value.String()
}

// quantity is a Quantity that a param gives, and where it stands.
type quantity struct {
	owner string // the step or handler; "": the DAG
	path  string // below it: retry_policy.limit
	of    interface {
		param() string
		wants() string
		check(v any, b bounds) error
		bind(v any, b bounds)
	}
	bounds
}

func (q *quantity) name() string {
	if q.owner == "" {
		return q.path
	}
	return q.path + " of step " + q.owner
}

// quantities calls visit for each quantity of the spec that a param gives.
func (s *Spec) quantities(visit func(q quantity)) {
	s.own(visit)
	for i := range s.Steps {
		s.Steps[i].quantities(s.Steps[i].ID, "", visit)
	}
	for _, h := range s.HandlerOn.all() {
		h.step.quantities(h.name, "", visit)
	}
}

// own calls visit for the quantities of the DAG itself.
func (s *Spec) own(visit func(q quantity)) {
	if s.Timeout.Param != "" {
		visit(quantity{"", "timeout", &s.Timeout, anyLimit})
	}
	if s.MaxActiveSteps.Param != "" {
		visit(quantity{"", "max_active_steps", &s.MaxActiveSteps, anyLimit})
	}
}

// quantities calls visit for the quantities of a step, of its publish and of its replacements. prefix comes before their paths.
func (s *Step) quantities(owner, prefix string, visit func(q quantity)) {
	s.own(func(q quantity) {
		q.owner, q.path = owner, prefix+q.path
		visit(q)
	})
	if s.Publish != nil {
		s.Publish.quantities(owner, prefix+"publish.", visit)
	}
	for i, rule := range s.OnError {
		for k := range rule.With {
			rule.With[k].quantities(owner, fmt.Sprintf("%son_error[%d].with[%d].", prefix, i, k), visit)
		}
		if rule.Ask != nil {
			rule.Ask.quantities(owner, fmt.Sprintf("%son_error[%d].ask.", prefix, i), visit)
		}
	}
}

// own calls visit for the quantities of a step alone.
func (s *Step) own(visit func(q quantity)) {
	if s.Timeout != nil && s.Timeout.Param != "" {
		visit(quantity{"", "timeout", s.Timeout, anyLimit})
	}
	if p := s.RetryPolicy; p != nil {
		if p.Limit.Param != "" {
			visit(quantity{"", "retry_policy.limit", &p.Limit, bounds{0, retryLimitMax}})
		}
		if p.Interval.Param != "" {
			visit(quantity{"", "retry_policy.interval", &p.Interval, bounds{}})
		}
		if p.MaxInterval.Param != "" {
			visit(quantity{"", "retry_policy.max_interval", &p.MaxInterval, bounds{}})
		}
	}
	if s.Foreach != nil && s.Foreach.MaxConcurrent.Param != "" {
		visit(quantity{"", "foreach.max_concurrent", &s.Foreach.MaxConcurrent, anyLimit})
	}
	if text, ok := s.With["timeout"].(string); ok && s.Action == "approval" {
		if ref := paramRef.FindStringSubmatch(text); ref != nil {
			visit(quantity{"", "with.timeout", &approvalTimeout{Span{Param: ref[1]}, s.With}, anyLimit})
		}
	}
}

// BoundParams returns the params that give durations or limits of the spec, sorted. For most specs there are none.
func (s *Spec) BoundParams() []string {
	var found []string
	s.quantities(func(q quantity) { found = append(found, q.of.param()) })
	slices.Sort(found)
	return slices.Compact(found)
}

// Bind returns the spec for a run with these params, which must be a result of Params: each duration and limit that a param gives
// has its value. If no param gives any, it returns s itself. It returns a ParamErrors with all values that do not fit.
func (s *Spec) Bind(params map[string]any) (*Spec, error) {
	if errs := s.misfits(params, func(string) bool { return false }); len(errs) > 0 {
		return nil, errs
	}
	if len(s.BoundParams()) == 0 {
		return s, nil
	}
	bound := s.copied()
	bound.quantities(func(q quantity) { q.of.bind(params[q.of.param()], q.bounds) })
	return bound, nil
}

// misfits returns the params with values that a quantity cannot have. It leaves out params for which skip returns true.
func (s *Spec) misfits(params map[string]any, skip func(name string) bool) (errs ParamErrors) {
	s.quantities(func(q quantity) {
		name := q.of.param()
		if skip(name) {
			return
		}
		if err := q.of.check(params[name], q.bounds); err != nil {
			errs = append(errs, ParamError{name, "cannot be " + q.name() + ": " + err.Error(), ""})
		}
	})
	return errs
}

// copied returns a copy of s that shares no quantity with s.
func (s *Spec) copied() *Spec {
	c := *s
	c.Steps = copiedSteps(s.Steps)
	for _, h := range []**Step{&c.HandlerOn.Init, &c.HandlerOn.Success, &c.HandlerOn.Failure, &c.HandlerOn.Abort, &c.HandlerOn.Exit} {
		*h = copiedStep(*h)
	}
	return &c
}

func copiedSteps(steps []Step) []Step {
	list := slices.Clone(steps)
	for i := range list {
		list[i] = *copiedStep(&list[i])
	}
	return list
}

func copiedStep(s *Step) *Step {
	if s == nil {
		return nil
	}
	c := *s
	c.Timeout, c.RetryPolicy, c.Foreach = copied(s.Timeout), copied(s.RetryPolicy), copied(s.Foreach)
	c.With, c.Publish, c.OnError = maps.Clone(s.With), copiedStep(s.Publish), slices.Clone(s.OnError)
	for i := range c.OnError {
		c.OnError[i].With, c.OnError[i].Ask = copiedSteps(c.OnError[i].With), copiedStep(c.OnError[i].Ask)
	}
	return &c
}

// copied returns a pointer to a copy of *p, or nil if p is nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// quantity checks a quantity of n that a param gives: the param must be declared, have the right type and always have a value, and
// its default and its choices must fit.
func (c *checker) quantity(n *node, q quantity) {
	at := n.in(strings.Split(q.path, ".")...)
	if at == nil {
		return
	}
	name := q.of.param()
	if _, wrong := c.names.check(ref{path: []string{"params", name}, part: at.text()}); wrong != nil {
		c.problem(at, *wrong)
		return
	}
	p := c.names.params[name]
	switch {
	case p == nil:
		return // it could not be read
	case p.Type != q.of.wants():
		c.add(at.pos(), "declare the param with type: "+q.of.wants(), "%s takes a param of type %s, and param %q is of type %s", q.path, q.of.wants(), name, p.Type)
		return
	case !p.Required && p.Default == nil:
		c.add(at.pos(), "make the param required: true, or give it a default", "param %q may have no value, and %s needs one", name, q.path)
		return
	}
	declared := c.declared(name)
	if v := declared.get("default"); v != nil {
		c.fits(v, p, q, "default")
	}
	for item := range declared.get("enum").list() {
		c.fits(item, p, q, "enum")
	}
}

// declared returns the node of a param, or nil if it could not be read.
func (c *checker) declared(param string) *node {
	for n := range c.root.get("params").list() {
		if n.get("name") != nil && n.get("name").text() == param {
			return n
		}
	}
	return nil
}

// fits reports a value in the declaration of a param that a quantity cannot have.
func (c *checker) fits(v *node, p *Param, q quantity, what string) {
	typed, err := p.coerce(v.plain())
	if err != nil {
		return // reported with the param
	}
	if err := q.of.check(typed, q.bounds); err != nil {
		c.add(v.pos(), "", "%s of param %q cannot be %s: %v", what, p.Name, q.path, err)
	}
}
