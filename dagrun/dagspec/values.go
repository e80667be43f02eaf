package dagspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/plainjson"
)

// Context is the content that dagrun.Options.Context must have (itself or a pointer to it) for graphs made by Spec.Graph.
type Context struct {
	Params            map[string]any // as Spec.Params returned them
	RunID             int64
	DAG               string
	LogicalAt         time.Time
	Schedule          string                           // name of the schedule that made the run, "" if no schedule did
	PreviousLogicalAt time.Time                        // the schedule's time before LogicalAt; zero if there is none
	Env               func(name string) (string, bool) // the inherited environment, filtered; nil: nothing is inherited
}

var errContext = errors.New("dagrun.Options.Context must hold a dagspec.Context")

// view looks up the values of references for one task.
type view struct {
	dagrun.Scope
	names *names
	ctx   Context
	level int // visible layers of env: 0 only inherited variables, 1 also the DAG's, 2 also the step's

	meter  *meter // meter of the evaluation that makes the lookup; nil: the lookup is free
	budget *meter // meter of computed values that no evaluation looks up; views of one task share it
	open   bool   // secrets may be filled in here
}

// newView returns a view that looks up values for the task of a scope, with all variables visible and secrets closed. It returns an
// error if the context of the scope is no Context.
func newView(scope dagrun.Scope, n *names) (*view, error) {
	v := &view{Scope: scope, names: n, level: 2, budget: newMeter(exprUnits)}
	switch ctx := scope.Context().(type) {
	case Context:
		v.ctx = ctx
	case *Context:
		v.ctx = *ctx
	default:
		return nil, errContext
	}
	return v, nil
}

// value returns the value of a reference, or nil if it has none. For a secret it returns a sealed, and an error where secrets are
// not allowed.
func (v *view) value(f ref) (any, error) {
	if f.root() == "secrets" {
		return v.secret(f)
	}
	base, err := v.base(f)
	if err != nil {
		return nil, err
	}
	return descend(base, f.rest()), nil
}

// base returns the value that a reference leads into: of params.p for params.p.x, and nil if there is none. A reference with an
// unknown first name is to the item.
func (v *view) base(f ref) (any, error) {
	switch f.root() {
	case "params":
		return v.param(f.path[1]), nil
	case "env":
		return v.lookup(f.path[1])
	case "run":
		return v.run(f.path[1]), nil
	case "error":
		return v.failure(f.path[1]), nil
	case "steps":
		return v.step(f)
	}
	if value, ok := v.chosen(f.root()); ok {
		return decodeJSON(value)
	}
	item, ok := v.Item()
	if !ok {
		return nil, nil
	}
	return decodeJSON(item.Value)
}

// secret returns a sealed text of the secret alone, or an error if the text must not hold secrets or the secret is not declared.
func (v *view) secret(f ref) (any, error) {
	name := f.path[len(f.path)-1]
	if _, ok := v.names.secrets[name]; !ok || !v.open {
		return nil, errors.New("the DAG has no such secret")
	}
	return sealed{{secret: name}}, nil
}

// param returns the value of a param in the type that its declaration says, or as it is stored if it does not fit that.
func (v *view) param(name string) any {
	value := v.ctx.Params[name]
	if p := v.names.params[name]; p != nil {
		if typed, err := p.accept(value); err == nil {
			return typed
		}
	}
	return value
}

// lookup returns a variable from the highest visible layer that has it, with references filled in: step, DAG, then inherited. The
// value is a string, or a sealed if it holds a secret, or nil if there is no such variable. A text of a layer sees only the layers
// below, so that PATH: ${env.PATH}:/opt/bin extends the lower PATH.
func (v *view) lookup(name string) (any, error) {
	below := *v
	for below.level--; below.level >= 0; below.level-- {
		if text, ok := v.layer(below.level + 1)[name]; ok {
			return below.filled("env."+name, text)
		}
	}
	if v.ctx.Env != nil && !v.names.isSource(name) {
		if text, ok := v.ctx.Env(name); ok {
			return text, nil
		}
	}
	return nil, nil
}

// layer returns the variables of the DAG for level 1, and of the step for level 2.
func (v *view) layer(level int) map[string]string {
	if level == 1 {
		return v.names.spec.Env
	}
	return v.names.env
}

func (v *view) run(field string) any {
	r := v.Run()
	switch field {
	case "id":
		return v.ctx.RunID
	case "dag":
		return v.ctx.DAG
	case "logical_at":
		return v.ctx.LogicalAt.UTC()
	case "schedule":
		if v.ctx.Schedule == "" {
			return nil
		}
		return v.ctx.Schedule
	case "previous_logical_at":
		if v.ctx.PreviousLogicalAt.IsZero() {
			return nil
		}
		return v.ctx.PreviousLogicalAt.UTC()
	case "state":
		return r.State.String()
	case "generation":
		return int64(r.Generation)
	}
	failed := make([]any, len(r.Failed))
	for i, name := range r.Failed {
		failed[i] = name
	}
	return failed
}

func (v *view) failure(field string) any {
	f, ok := v.Failure()
	switch {
	case !ok:
		return nil
	case field == "kind":
		return string(f.Kind)
	case field == "exit_code":
		return int64(f.ExitCode)
	case field == "signal":
		return int64(f.Signal)
	case field == "timed_out":
		return f.Kind == dagrun.KindTimeout
	case field == "message":
		return f.Message
	case field == "duration":
		return Duration(f.Duration).Std()
	case field == "stderr_tail":
		return f.Stderr
	}
	return int64(f.Attempt)
}

func (v *view) step(f ref) (any, error) {
	s, ok := v.Step(f.path[1])
	if !ok {
		return nil, fmt.Errorf("step %q is not in the graph", f.path[1])
	}
	switch f.path[2] {
	case "state":
		return s.State.String(), nil
	case "attempt":
		return int64(s.Attempt), nil
	case "exit_code":
		if !s.HasExit {
			return nil, nil
		}
		return int64(s.ExitCode), nil
	case "items":
		return v.count(f.path[1], f.path[3])
	case "replacements":
		return v.replacements(f.path[1], s)
	}
	if v.names.gathers(f.path[1]) {
		return v.gather(f.path[1], f.output())
	}
	if err := v.decodes(s); err != nil {
		return nil, err
	}
	return output(s, f.output())
}

// replacements returns a list with the name, the state and the outputs of each replacement of a step. For a foreach step it returns a
// list of such lists, one for each item.
func (v *view) replacements(id string, s dagrun.StepView) (any, error) {
	groups := []dagrun.StepView{s}
	if v.names.gathers(id) {
		groups = v.Items(id)
	}
	lists := make([]any, len(groups))
	for i, g := range groups {
		list := make([]any, len(g.Replaced))
		for k, alt := range g.Replaced {
			if err := v.decodes(alt); err != nil {
				return nil, err
			}
			var outputs any = map[string]any{}
			if alt.Outputs != "" {
				var err error
				if outputs, err = decodeJSON(alt.Outputs); err != nil {
					return nil, err
				}
			}
			list[k] = map[string]any{"step": fmt.Sprintf("%s~%d", id, alt.Alt), "state": alt.State.String(), "outputs": outputs}
		}
		lists[i] = list
	}
	if v.names.gathers(id) {
		return lists, nil
	}
	return lists[0], nil
}

// decodes charges the meter, if there is one, for decoding the outputs of a step or item. It returns errCost at the limit.
func (v *view) decodes(s dagrun.StepView) error {
	if v.meter == nil {
		return nil
	}
	return v.meter.spend(20 + 2*len(s.Outputs))
}

// gather returns a list with the output of each item of a foreach step, in the order of the items. An item without it has nil.
func (v *view) gather(id, name string) (any, error) {
	items := v.Items(id)
	list := make([]any, len(items))
	for i, item := range items {
		if err := v.decodes(item); err != nil {
			return nil, err
		}
		value, err := output(item, name)
		if err != nil {
			return nil, err
		}
		list[i] = value
	}
	return list, nil
}

// count returns how many items of a foreach step there are in all, for "total", or in the state that field names. Items that are
// upstream_failed count as failed.
func (v *view) count(id, field string) (any, error) {
	items := v.Items(id)
	if v.meter != nil {
		if err := v.meter.spend(20 * len(items)); err != nil {
			return nil, err
		}
	}
	if field == "total" {
		return int64(len(items)), nil
	}
	n := int64(0)
	for _, item := range items {
		failed := item.State == dagrun.TaskFailed || item.State == dagrun.TaskUpstreamFailed
		if field == item.State.String() || field == "failed" && failed {
			n++
		}
	}
	return n, nil
}

// output returns one of the outputs of a step or item, or nil if it has none of that name.
func output(s dagrun.StepView, name string) (any, error) {
	if s.Outputs == "" {
		return nil, nil
	}
	all, err := decodeJSON(s.Outputs)
	if err != nil {
		return nil, err
	}
	outputs, _ := all.(map[string]any)
	return outputs[name], nil
}

// MaxValueDepth limits how deep lists and maps of a value may be nested, as the database limits it for values that users hand
// in. Programs give up far later: encoding/json at 10,000 levels.
const MaxValueDepth = 500

// CheckDepth returns an error if a JSON value is nested deeper than MaxValueDepth. The text must be valid JSON: CheckDepth only
// counts brackets.
func CheckDepth(text dagrun.JSON) error {
	depth, quoted := 0, false
	for i := 0; i < len(text) && len(text) > 2*MaxValueDepth; i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > MaxValueDepth {
				return fmt.Errorf("lists and objects are nested more than %d deep: flatten them, or pass a text", MaxValueDepth)
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}

// decodeJSON decodes a stored JSON value to the types of encoding/json, except that integers are int64 and so stay exact.
func decodeJSON(text dagrun.JSON) (any, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode a stored value: %w", err)
	}
	return exact(v), nil
}

// exact turns each json.Number in a value into an int64, or a float64 if it is no such integer. It changes lists and maps in place.
func exact(v any) any {
	switch x := v.(type) {
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return i
		}
		f, _ := x.Float64()
		return f
	case []any:
		for i := range x {
			x[i] = exact(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = exact(x[k])
		}
	}
	return v
}

// descend follows a path of keys, and of indexes from 0 for lists, into a JSON value. It returns nil if the path leads nowhere.
func descend(v any, path []string) any {
	for _, key := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// asText converts a value to text: strings as they are, times as RFC 3339, durations as 1m30s, anything else as compact JSON. It
// returns an error only for a value that JSON cannot hold.
func asText(v any) (string, error) {
	v = plainTime(v)
	if text, ok := v.(string); ok {
		return text, nil
	}
	text, err := compactJSON(v)
	return string(text), err
}

func compactJSON(v any) (dagrun.JSON, error) {
	text, err := plainjson.Compact(v)
	return dagrun.JSON(text), err
}
