package dagspec

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// A computed value is `${= expression}` in a text. Graph compiles each of them once, with the names that its text may use, and
// Resolve evaluates it where it would look up a reference.

const (
	opening          = "${="
	maxComputedBytes = 4096 // of one computed value as it is written
	maxComputed      = 5000 // computed values of a DAG: each takes about 30 µs to compile, and some kilobytes
)

// computes is the value of names.field in a computed value beside which a reference to a secret may stand.
const computes = "${="

// closingOfExpression returns the index of the brace that ends the computed value at the beginning of text, or -1 if there is none.
// It passes over braces of maps and predicates, over texts in quotes and over comments.
func closingOfExpression(text string) int {
	depth := 0
	for i := len(opening); i < len(text); {
		if end := pastQuoted(text, i); end > i {
			i = end
			continue
		}
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
		i++
	}
	return -1
}

// pastQuoted returns the index behind the text in quotes or the comment that begins at index i of an expression, or i if neither
// begins there. As in the library's lexer, a quote that is not closed ends with its line, and an open "`" or "/*" with the whole
// text.
func pastQuoted(text string, i int) int {
	end := func(from int, closing string) int {
		if n := strings.Index(text[from:], closing); n >= 0 {
			return from + n + len(closing)
		}
		return len(text)
	}
	switch c := text[i]; {
	case c == '`':
		return end(i+1, "`")
	case strings.HasPrefix(text[i:], "//"):
		return end(i+2, "\n")
	case strings.HasPrefix(text[i:], "/*"):
		return end(i+2, "*/")
	case c == '"' || c == '\'':
		for k := i + 1; k < len(text) && text[k] != '\n'; k++ {
			switch text[k] {
			case '\\':
				k++
			case c:
				return k + 1
			}
		}
		return min(end(i, "\n"), len(text))
	}
	return i
}

// expressionIn returns the expression in a computed value.
func expressionIn(source string) string {
	return strings.TrimSuffix(strings.TrimPrefix(source, opening), "}")
}

// computing returns the names for the computed values of a text with the names n. An expression cannot read a secret: its result
// could tell a part of it, which no mask would find in a log.
func (n *names) computing() *names {
	own := *n
	if n.secret {
		own.secret, own.field = false, computes
	}
	return &own
}

// belowStep returns the names for the variables of a step or of the DAG, which see only lower layers, and secrets.
func (n *names) belowStep() *names {
	own := n.withSecrets()
	own.env = nil
	return own
}

// compute compiles a computed value of a text with the names n, as compile does.
func (n *names) compute(source string, want wanted) (*expression, []problem) {
	text := expressionIn(source)
	switch {
	case strings.TrimSpace(text) == "":
		return nil, []problem{{source, "a computed value has no expression", "write ${= params.n + 1}, or $${ for a literal ${"}}
	case len(source) > maxComputedBytes:
		return nil, []problem{{source, fmt.Sprintf("a computed value has %d bytes, more than %d", len(source), maxComputedBytes), "compute the value in a step"}}
	}
	return n.computing().compile(text, want)
}

// computed reports mistakes in a computed value of the text n, and notes which other steps it refers to.
func (c *checker) computed(n *node, known *names, source string, want wanted) {
	if c.computes++; c.computes > maxComputed {
		if c.computes == maxComputed+1 {
			c.problem(n, problem{source, fmt.Sprintf("the DAG has more than %d computed values", maxComputed), "compute the values in a step, as one list or map"})
		}
		return
	}
	e, problems := known.compute(source, want)
	if e == nil || len(e.refs) > 0 {
		here := *n // positions are looked for from the computed value on, because the same words may stand before it
		here.at = c.locate(n, source)
		n = &here
	}
	for _, p := range problems {
		if p.part = strings.TrimSpace(p.part); p.part == "" {
			p.part = source
		}
		c.problem(n, p)
	}
	if e == nil {
		return
	}
	for _, f := range e.refs {
		c.used(n, known, f)
	}
	if len(e.refs) == 0 {
		c.constant(n, source, e)
	}
}

// constant reports a computed value without names if it has no value: it cannot have one in a run either. All of them together may
// cost as much as one evaluation; what costs more is left to the run.
func (c *checker) constant(n *node, source string, e *expression) {
	if c.constants == nil {
		c.constants = newMeter(exprUnits)
	}
	value, err := e.value(map[string]any{meterName: c.constants}, c.constants)
	switch {
	case errors.Is(err, errCost):
	case err != nil:
		c.problem(n, problem{source, shownSource(source) + ": " + err.Error(), ""})
	case value == nil:
		c.problem(n, problem{source, shownSource(source) + " has no value", "write default(…, …) in it to give a default"})
	}
}

// values compiles the computed values in the texts of a step into n.values. Scripts and SQL are no such texts. A replacement shares
// n.values with its step, so that texts which it takes from the step are not compiled again.
func (c *compiler) values(s *Step, n *names) {
	if n.values == nil {
		n.values = map[string]*expression{}
	}
	into := func(known *names, where string, texts ...string) {
		for _, text := range texts {
			c.computed(known, n.values, where, text, wantValue)
		}
	}
	for _, name := range sortedKeys(s.Env) {
		into(n.belowStep(), "env."+name, s.Env[name])
	}
	into(n, "name", s.Name)
	into(n, "args", s.Args.List...)
	for _, label := range sortedKeys(s.Labels) {
		into(n, "labels."+label, s.Labels[label])
	}
	if s.Stdin != nil {
		into(n, "stdin", s.Stdin.Text)
	}
	for _, key := range sortedKeys(s.With) {
		known := n
		if s.takesSecrets(key) {
			known = n.withSecrets()
		}
		value := s.With[key]
		if key == "sql" && s.Action == "postgres.query" {
			value = paramsOf(value)
		}
		into(known, "with."+key, textsIn(value)...)
	}
}

// paramsOf returns the params of the statements in a list, without the statements.
func paramsOf(sql any) any {
	var params []any
	list, _ := sql.([]any)
	for _, item := range list {
		if statement, ok := item.(map[string]any); ok {
			params = append(params, statement["params"])
		}
	}
	return params
}

// textsIn returns all texts in a value, at any depth, in a fixed order. Keys of maps are not among them.
func textsIn(value any) []string {
	switch x := value.(type) {
	case string:
		return []string{x}
	case []any:
		var list []string
		for _, item := range x {
			list = append(list, textsIn(item)...)
		}
		return list
	case map[string]any:
		var list []string
		for _, key := range sortedKeys(x) {
			list = append(list, textsIn(x[key])...)
		}
		return list
	}
	return nil
}

// computed compiles the computed values of a text into the map. The first mistake of each goes to c.errs, with where as the name of
// the field.
func (c *compiler) computed(n *names, into map[string]*expression, where, text string, want wanted) {
	if !strings.Contains(text, opening) {
		return
	}
	t, _ := parseTemplate(text)
	for _, s := range t {
		if s.source == "" || into[s.source] != nil {
			continue
		}
		e, problems := n.compute(s.source, want)
		if len(problems) > 0 {
			c.errs = append(c.errs, fmt.Errorf("step %s: %s: %s", n.self, where, problems[0].msg))
			continue
		}
		into[s.source] = e
	}
}

// itemsNames returns the names for the items of a foreach, with their computed values compiled. n must not have the item.
func (c *compiler) itemsNames(items Items, n *names) *names {
	own := *n
	own.values = map[string]*expression{}
	if items.Ref != "" {
		c.computed(&own, own.values, "foreach.items", items.Ref, wantList)
	}
	for _, text := range textsIn(items.List) {
		c.computed(&own, own.values, "foreach.items", text, wantValue)
	}
	return &own
}

// computed returns the value of a computed value, in the types of decodeJSON. It returns an error if the evaluation fails, or if the
// value is null or no value of JSON.
func (v *view) computed(field, source string) (any, error) {
	compiled := v.names.values
	if v.level == 0 {
		compiled = v.names.valuesOfDAG // only the variables of the DAG see nothing but inherited ones
	}
	e := compiled[source]
	if e == nil {
		return nil, fmt.Errorf("%s: %s must not be here", field, shownSource(source))
	}
	value, err := v.evaluate(e)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %s: %w", field, shownSource(source), err)
	case value == nil:
		return nil, fmt.Errorf("%s: %s has no value: write default(…, …) in it to give a default", field, shownSource(source))
	}
	return value, nil
}

const sourceRunesMax = 120 // of a computed value in a message

// shownSource returns a computed value as it is written, on one line.
func shownSource(source string) string {
	return shortened(strings.Join(strings.Fields(source), " "), sourceRunesMax)
}

// evaluate returns the value of an expression that sees what the view sees, except secrets. The cost counts toward the evaluation
// that made the view, or else toward the budget of the view.
func (v *view) evaluate(e *expression) (any, error) {
	m := cmp.Or(v.meter, v.budget)
	sees := *v
	sees.open = false
	env, err := sees.exprEnv(e.refs, m)
	if err != nil {
		return nil, err
	}
	return e.value(env, m)
}

// value does the work of run, and returns the result in the types of decodeJSON. It returns an error if that is no value of JSON.
func (e *expression) value(env map[string]any, m *meter) (any, error) {
	out, err := e.run(env, m)
	if err != nil {
		return nil, err
	}
	if err := m.see(out, costOfValue); err != nil {
		return nil, err
	}
	value, err := jsonValue(out, 0)
	if err != nil {
		return nil, err
	}
	switch err := refuseUnstorable(value); {
	case errors.Is(err, errNotFinite):
		return nil, errors.New("the result has a number that is not finite: a division by zero, or a number that is too large")
	case err != nil:
		return nil, fmt.Errorf("the value cannot be stored: %w", err)
	}
	return value, nil
}

// jsonValue converts the result of an expression to the types of decodeJSON: numbers without a fraction become int64, and times and
// durations become texts. Lists and maps are copied. depth is the depth of the value in the outermost one.
func jsonValue(v any, depth int) (any, error) {
	switch x := v.(type) {
	case nil, bool, string:
		return v, nil
	case time.Time, time.Duration:
		return plainTime(x), nil
	}
	if depth > MaxValueDepth {
		return nil, fmt.Errorf("lists and maps are nested more than %d deep", MaxValueDepth)
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int(), nil
	case r.CanUint():
		return wholeNumbers(float64(r.Uint())), nil
	case r.CanFloat():
		return wholeNumbers(r.Float()), nil
	case r.Kind() == reflect.Slice || r.Kind() == reflect.Array:
		list := make([]any, r.Len())
		for i := range list {
			var err error
			if list[i], err = jsonValue(r.Index(i).Interface(), depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case r.Kind() == reflect.Map:
		return jsonMap(r, depth)
	}
	return nil, fmt.Errorf("the value is a %T, which is no value of JSON", v)
}

// jsonMap does the work of jsonValue for maps. Keys that are no texts, as groupBy makes them, become texts.
func jsonMap(r reflect.Value, depth int) (any, error) {
	m := make(map[string]any, r.Len())
	for each := r.MapRange(); each.Next(); {
		key, err := jsonValue(each.Key().Interface(), depth+1)
		if err != nil {
			return nil, err
		}
		name, err := asText(key)
		if err != nil {
			return nil, err
		}
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("the map has the key %s twice, as a text and as another value", shortened(name, sourceRunesMax))
		}
		if m[name], err = jsonValue(each.Value().Interface(), depth+1); err != nil {
			return nil, err
		}
	}
	return m, nil
}
