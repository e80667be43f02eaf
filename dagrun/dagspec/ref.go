package dagspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ref is a reference, as a path: params.x, steps.a.outputs.n, env.X, run.id, item.a.b, error.kind.
type ref struct {
	path []string
	part string // the reference as it is written, to find its position
}

func (f ref) root() string   { return f.path[0] }
func (f ref) String() string { return strings.Join(f.path, ".") }

// step returns the id of the step that a reference names, or "" if it does not begin with steps.
func (f ref) step() string {
	if f.root() == "steps" && len(f.path) > 1 {
		return f.path[1]
	}
	return ""
}

// stream returns the name of the stream if the reference is to what a body wrote to it, stdout for steps.a.stdout. It returns "" for
// any other reference.
func (f ref) stream() string {
	if f.step() != "" && len(f.path) > 2 && slices.Contains(streams, f.path[2]) {
		return f.path[2]
	}
	return ""
}

// isTail reports whether the reference is to the end of what a failed body wrote to its stderr.
func (f ref) isTail() bool {
	return f.root() == "error" && len(f.path) > 1 && f.path[1] == "stderr_tail"
}

// output returns the name of the output if the reference is to one, or to a part of one: n for steps.a.outputs.n, and stdout for
// steps.a.stdout. It returns "" for any other reference.
func (f ref) output() string {
	if f.step() != "" && len(f.path) > 3 && f.path[2] == "outputs" {
		return f.path[3]
	}
	return f.stream()
}

// isOutput reports whether the reference is to an output of a step, or to a part of one.
func (f ref) isOutput() bool { return f.output() != "" }

// mayLack reports whether the reference is to run.previous_logical_at, which has a value only in runs of schedules.
func (f ref) mayLack() bool {
	return f.root() == "run" && len(f.path) > 1 && f.path[1] == "previous_logical_at"
}

// rest returns the parts of a reference that lead into a value: [x] for params.p.x and for steps.a.outputs.n.x. The reference must
// name a value: for params alone rest panics.
func (f ref) rest() []string {
	switch f.root() {
	case "steps":
		return f.path[min(named(f.path), len(f.path)):]
	case "params", "env", "run", "error":
		return f.path[2:]
	}
	return f.path[1:]
}

// valueType is the type of a value as far as it is known before the run.
type valueType uint8

const (
	typeAny valueType = iota
	typeString
	typeInteger
	typeNumber
	typeBoolean
	typeList
	typeTime
	typeDuration
)

var paramTypes = map[string]valueType{"string": typeString, "integer": typeInteger, "number": typeNumber, "boolean": typeBoolean}

var outputTypes = map[string]valueType{"string": typeString, "number": typeNumber}

var (
	runFields = map[string]valueType{
		"id": typeInteger, "logical_at": typeTime, "state": typeString, "failed": typeList,
		"generation": typeInteger, "dag": typeString, "previous_logical_at": typeTime,
		"schedule": typeAny, // a text, or null: the type lets an expression compare it with null in a run that no schedule made
	}
	itemsFields = map[string]valueType{"total": typeInteger, "succeeded": typeInteger, "failed": typeInteger, "skipped": typeInteger}
	errorFields = map[string]valueType{
		"kind": typeString, "exit_code": typeInteger, "signal": typeInteger, "timed_out": typeBoolean,
		"attempt": typeInteger, "message": typeString, "duration": typeDuration, "stderr_tail": typeString,
	}
	stepFields = map[string]valueType{"state": typeString, "exit_code": typeAny, "attempt": typeInteger, "replacements": typeList}
)

// place is the part of the file in which a text stands. It decides which names the text may use.
type place uint8

const (
	inStep place = iota
	inDAG        // env of the DAG: no step may be named
	inInit       // the init handler: no step has run
	inHandler
	inPublish // the outputs of the step itself are known
)

// names are the names that a text may refer to.
type names struct {
	spec    *Spec
	steps   map[string]*Step
	vague   vague // unreadable parts of the file: references to them are not checked
	params  map[string]*Param
	place   place
	self    string            // id of the step that has the text, "" in handlers
	item    string            // name of the item, "" outside foreach
	chosen  []string          // names of the items of replacements by data, in the order of dagrun.Failure
	failure bool              // error may be named
	failed  string            // with failure: the kind of the body that failed; "": not known
	secret  bool              // secrets may be named
	field   string            // "args" if the text is an argument, "${=" if it is a computed value beside which a secret may stand
	env     map[string]string // of the step
	secrets map[string]Secret // of the DAG and the step
	all     []Secret          // of the DAG and of all its steps

	values      map[string]*expression // computed values in the texts of the step, by their source; nil before Graph
	valuesOfDAG map[string]*expression // computed values in env of the DAG
}

func newNames(spec *Spec) *names {
	n := &names{spec: spec, steps: make(map[string]*Step, len(spec.Steps)), params: make(map[string]*Param, len(spec.ParamDefs)), secrets: make(map[string]Secret, len(spec.Secrets)), all: spec.AllSecrets(), place: inDAG}
	for i := range spec.Steps {
		if s := &spec.Steps[i]; n.steps[s.ID] == nil {
			n.steps[s.ID] = s
		}
	}
	for _, s := range spec.Secrets {
		n.secrets[s.Name] = s
	}
	for i := range spec.ParamDefs {
		n.params[spec.ParamDefs[i].Name] = &spec.ParamDefs[i]
	}
	return n
}

// of returns the names that the texts of a step may use, its item in a foreach included. The place is inStep: for a handler the
// caller adds at.
func (n *names) of(s *Step) *names {
	own := *n
	own.place, own.self, own.env = inStep, s.ID, s.Env
	if s.Foreach != nil {
		own.item = s.Foreach.As
	}
	return &own
}

// at returns the names for texts in a place of the file.
func (n *names) at(p place) *names {
	own := *n
	own.place = p
	return &own
}

// withFailure returns the names for conditions of on_error and for replacements, which may also use error. kind is the kind of the
// body that failed, "" if it is not known.
func (n *names) withFailure(kind string) *names {
	own := *n
	own.failure, own.failed = true, kind
	return &own
}

// in returns the names for the texts under a key of a step. Only the key "args" makes a difference: it changes the hint for a
// secret.
func (n *names) in(field string) *names {
	own := *n
	own.field = field
	return &own
}

// withSecrets returns the names for texts that may refer to secrets.
func (n *names) withSecrets() *names {
	own := *n
	own.secret = true
	return &own
}

// problem is a mistake in a part of a text.
type problem struct{ part, msg, hint string }

// check returns the type of a reference as far as it is known before the run, or the mistake in it: it names nothing, or must not
// stand in this text. A reference to a part of the file that could not be read is no mistake.
func (n *names) check(f ref) (valueType, *problem) {
	switch f.root() {
	case "params":
		return n.checkParam(f)
	case "steps":
		return n.checkStep(f)
	case "env":
		return n.checkVariable(f)
	case "run":
		return f.field(runFields, 1)
	case "error":
		return n.checkFailure(f)
	case "secrets":
		return n.secretHere(f)
	}
	if n.isItem(f.root()) || n.self != "" && n.vague.ids[n.self] {
		return typeAny, nil
	}
	return 0, n.unknown(f)
}

// checkFailure is check for references to the failure that on_error deals with.
func (n *names) checkFailure(f ref) (valueType, *problem) {
	if !n.failure {
		return 0, f.wrong("error describes a failure: use error only in when: of on_error, and in replacements", "error has no value here")
	}
	if f.isTail() && n.failed != "" && n.failed != "run" && n.failed != "command" {
		return 0, f.wrong("only a body of kind run or command has one: error.message says why it failed", "a body of kind %s has no stderr", n.failed)
	}
	return f.field(errorFields, 1)
}

// wrong returns a problem with the reference; format and args make the message.
func (f ref) wrong(hint, format string, args ...any) *problem {
	return &problem{f.part, fmt.Sprintf(format, args...), hint}
}

// unknown returns the problem for a reference that begins with an unknown name.
func (n *names) unknown(f ref) *problem {
	if f.root() == "item" || f.root() == "batch" {
		if items := n.itemNames(); len(items) > 0 {
			return f.wrong("foreach.as names the item", "the name of the item in this step is %s", items[len(items)-1])
		}
		return f.wrong("add foreach: to the step", "%s has a value only in a step with foreach", f.root())
	}
	known := []string{"params", "steps", "env", "run"}
	hint, ok := nearest(f.root(), known)
	switch {
	case ok:
	case n.params[f.root()] != nil:
		hint = "write params." + f.root()
	case n.steps[f.root()] != nil:
		hint = "write steps." + f.root()
	case strings.ToUpper(f.root()) == f.root():
		hint = "for an environment variable write env." + f.root() + "; for a literal write $${"
	default:
		hint = "the names are params.x, steps.id.outputs.x, env.X, run.id and, with foreach, item"
	}
	return f.wrong(hint, "unknown name %q", f.root())
}

func (n *names) checkParam(f ref) (valueType, *problem) {
	if len(f.path) == 1 {
		return 0, f.wrong("write params.name", "params needs the name of a param")
	}
	p := n.params[f.path[1]]
	if p == nil && n.vague.params {
		return typeAny, nil
	}
	if p == nil {
		return 0, f.wrong(knownHint(f.path[1], sortedKeys(n.params), "add this param to params:"), "unknown param %q", f.path[1])
	}
	if len(f.rest()) > 0 && p.Type != "json" {
		return 0, f.wrong("only a param of type json has parts", "param %q is a %s", p.Name, p.Type)
	}
	if !p.Required && p.Default == nil {
		return typeAny, nil // an optional param may have no value
	}
	return paramTypes[p.Type], nil
}

func (n *names) checkStep(f ref) (valueType, *problem) {
	if len(f.path) < 3 {
		return 0, f.wrong("write steps.id.outputs.name or steps.id.state", "steps needs the id of a step, and outputs or state of the step")
	}
	id := f.path[1]
	s := n.steps[id]
	switch {
	case s == nil && (n.vague.ids[id] || n.vague.steps):
		return typeAny, nil
	case s == nil:
		return 0, f.wrong(knownHint(id, sortedKeys(n.steps), ""), "unknown step %q", id)
	case n.place == inDAG:
		return 0, f.wrong("use the reference in env: of a step", "env of the DAG cannot refer to steps")
	case n.place == inInit:
		return 0, f.wrong("init runs before the first step", "no step has run yet")
	case id == n.self && n.place != inPublish:
		return 0, f.wrong("a step can refer only to steps that the step depends on", "step %q refers to itself", id)
	}
	switch f.path[2] {
	case "outputs", "stdout", "stderr":
		return n.checkOutput(f, s)
	case "items":
		if s.Foreach == nil && !n.vague.ids[id] {
			return 0, f.wrong("only a step with foreach has items", "step %q has no items", id)
		}
		return f.field(itemsFields, 3)
	case "replacements":
		if !s.replaces() && !n.vague.ids[id] {
			return 0, f.wrong("only a step with do: replace or do: ask has replacements", "step %q has no replacements", id)
		}
	}
	return f.field(stepFields, 2)
}

func (n *names) checkOutput(f ref, s *Step) (valueType, *problem) {
	name := f.output()
	if name == "" {
		return 0, f.wrong("write steps."+s.ID+".outputs.name", "outputs needs the name of an output")
	}
	t, known, ok := s.output(name)
	if f.stream() != "" && !n.vague.ids[s.ID] {
		if p := s.checkStream(f); p != nil {
			return 0, p
		}
		t, ok = cmp.Or(t, "string"), true
	}
	switch {
	case n.vague.ids[s.ID]:
		return typeAny, nil
	case !ok && slices.Contains(streams, name) && s.executes():
		return 0, f.wrong("write steps."+s.ID+"."+name, "step %q has no output %q", s.ID, name)
	case !ok:
		return 0, f.wrong(knownHint(name, known, "add this output to the step's outputs:"), "step %q has no output %q", s.ID, name)
	case n.gathers(s.ID):
		return typeList, nil
	case len(f.rest()) > 0 && t != "json" && f.stream() != "":
		return 0, f.wrong(fmt.Sprintf("declare outputs: [{name: %s, from: %s, type: json}] in step %s", name, name, s.ID), "%s of step %q is a text and has no parts", name, s.ID)
	case len(f.rest()) > 0 && t != "json":
		return 0, f.wrong("only an output of type json has parts", "output %q is a %s", name, t)
	}
	return paramTypes[t], nil // inputs of approvals have the types of params
}

// replaces reports whether a rule of on_error replaces a failed task of the step.
func (s *Step) replaces() bool {
	return slices.ContainsFunc(s.OnError, func(rule ErrorRule) bool { return len(rule.With) > 0 })
}

// gathers reports whether a reference to an output of a step has a list of the items' outputs as its value. It does for a foreach
// step, except in the publish of its own items, where a text sees the outputs of its item.
func (n *names) gathers(id string) bool {
	s := n.steps[id]
	return s != nil && s.Foreach != nil && (n.place != inPublish || n.self != id)
}

// output looks up a declared output: one under outputs:, of a precomputed result, of an action that always has it, or an input of
// an approval. It returns the type of the output and the names of all outputs of the step. ok is false if there is no such output.
func (s *Step) output(name string) (kind string, known []string, ok bool) {
	all := map[string]string{}
	if s.Result != nil {
		for k := range s.Result.Outputs {
			all[k] = "json"
		}
	}
	if b := builtins[s.Action]; b != nil {
		maps.Copy(all, b.outputs)
	}
	if s.Action == "approval" {
		for _, p := range s.inputs() {
			all[p.Name] = inputKind(&p)
		}
	}
	for _, o := range s.Outputs {
		all[o.Name] = o.Type
	}
	kind, ok = all[name]
	return kind, sortedKeys(all), ok
}

// field checks part i of a reference against the known names, and returns its type or the mistake. The reference must not be
// longer, unless the type has parts: a time, a duration or a list.
func (f ref) field(known map[string]valueType, i int) (valueType, *problem) {
	what := strings.Join(f.path[:min(i, len(f.path))], ".")
	if len(f.path) <= i {
		return 0, f.wrong("known are "+oneOf(sortedKeys(known)), "%s needs a field", what)
	}
	t, ok := known[f.path[i]]
	switch {
	case !ok:
		all := sortedKeys(known)
		if what == "steps."+f.step() {
			all = append(append(all, "outputs", "items"), streams...)
		}
		return 0, f.wrong(knownHint(f.path[i], all, ""), "%s has no %q", what, f.path[i])
	case len(f.path) > i+1 && t != typeTime && t != typeDuration && t != typeList:
		return 0, f.wrong("", "%s has no parts", strings.Join(f.path[:i+1], "."))
	}
	return t, nil
}

// knownHint returns a hint for an unknown name: the most similar known name, or else all known names if they are few, followed by
// otherwise. If they are many or none, it returns only otherwise, which may be "".
func knownHint(name string, known []string, otherwise string) string {
	if hint, ok := nearest(name, known); ok {
		return hint
	}
	if len(known) > 0 && len(known) <= 12 {
		return strings.TrimSuffix("known are "+strings.Join(known, ", ")+"; "+otherwise, "; ")
	}
	return otherwise
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// stringList returns the texts of a list, without its other values. It returns nil if v is no list.
func stringList(v any) []string {
	var list []string
	items, _ := v.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			list = append(list, s)
		}
	}
	return list
}

// template is a text with references and computed values in it.
type template []span

// span is a literal, a reference or a computed value.
type span struct {
	literal string
	ref     *ref
	orElse  *any // value of default(); nil: no default

	source string // a computed value as it is written, ${= …}; "" for anything else
}

func (s span) isLiteral() bool { return s.ref == nil && s.source == "" }

var (
	refPattern = regexp.MustCompile(`^[a-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)*$`)
	pipePat    = regexp.MustCompile(`^(.*?)\s*\|\s*default\((.*)\)$`)
	callPat    = regexp.MustCompile(`^default\(\s*([^,]*?)\s*,(.*)\)$`)
)

// parseTemplate splits a text at its references and computed values. `$${` is a literal `${`. It returns a problem for each `${…}`
// that is neither, and leaves that out of the template. After one without a closing brace it stops. It does not look into the
// expressions of computed values.
func parseTemplate(text string) (template, []problem) {
	var t template
	var problems []problem
	literal := ""
	for text != "" {
		i := strings.Index(text, "${")
		if i < 0 {
			break
		}
		if i > 0 && text[i-1] == '$' {
			literal += text[:i-1] + "${"
			text = text[i+2:]
			continue
		}
		literal += text[:i]
		end, p := closing(text[i:])
		if p != nil {
			return t, append(problems, *p)
		}
		s, p := parseSpan(text[i : i+end+1])
		if p != nil {
			problems = append(problems, *p)
		} else {
			t, literal = append(t, span{literal: literal}, s), ""
		}
		text = text[i+end+1:]
	}
	return append(t, span{literal: literal + text}), problems
}

// closing returns the index of the brace that ends the reference or computed value at the beginning of text, or a problem if there
// is none.
func closing(text string) (int, *problem) {
	const literal = ", or write $${ for a literal ${"
	if strings.HasPrefix(text, opening) {
		if end := closingOfExpression(text); end > 0 {
			return end, nil
		}
		return 0, &problem{text, "a computed value has no closing brace", "close the expression with }, and each text in it with its quote" + literal}
	}
	if end := closingOfReference(text); end > 0 {
		return end, nil
	}
	return 0, &problem{text, "a reference has no closing brace", "close the reference with }" + literal}
}

// closingOfReference returns the index of the brace that ends the reference at the beginning of text, or -1 if there is none in the
// line. It passes over braces in a default value, which may also have several lines.
func closingOfReference(text string) int {
	quoted, depth := false, 0
	for i := 2; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '\n' && depth == 0:
			return -1
		case c == '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// parseSpan reads `${ref}`, `${ref | default(json)}`, `${default(ref, json)}` or `${= expression}`, which must be all of part. It
// returns a problem if part is none of these.
func parseSpan(part string) (span, *problem) {
	if strings.HasPrefix(part, opening) {
		return span{source: part}, nil
	}
	body := strings.TrimSpace(part[2 : len(part)-1])
	var s span
	for _, form := range []*regexp.Regexp{callPat, pipePat} {
		m := form.FindStringSubmatch(body)
		if m == nil {
			continue
		}
		var value any
		if err := json.Unmarshal([]byte(m[2]), &value); err != nil {
			return s, &problem{part, "the value of default() is not JSON", `write "text", a number, true, false, null, [] or {}`}
		}
		value = wholeNumbers(value)
		body, s.orElse = m[1], &value
		break
	}
	if !refPattern.MatchString(body) {
		return s, &problem{part, fmt.Sprintf("%s is not a reference", part), referenceHint(body)}
	}
	s.ref = &ref{path: strings.Split(body, "."), part: part}
	return s, nil
}

// referenceHint returns a hint for the text between the braces of `${…}` if it is no reference.
func referenceHint(body string) string {
	switch {
	case body == "":
		return "write $${ for a literal ${"
	case refPattern.MatchString(strings.ToLower(body)), shellForm.MatchString(body):
		return "variables of the shell work only in run:; write ${env.NAME} instead, or $${ for a literal ${"
	case isExpression(body):
		return fmt.Sprintf("write ${= %s} to compute a value, or $${ for a literal ${", shortened(body, sourceRunesMax))
	}
	return "a reference is a name such as ${params.day} or ${steps.a.outputs.n}; write ${= …} to compute a value, or $${ for a literal ${"
}

// shellForm matches the expansions of a shell, such as NAME:-default and NAME#prefix.
var shellForm = regexp.MustCompile(`^[#!]|^[A-Za-z_][A-Za-z0-9_.]*(?::[-=?+0-9]|[#%])`)

// refs returns all references of the text, in their order, duplicates included. References inside computed values are not among
// them.
func (t template) refs() []ref {
	var list []ref
	for _, s := range t {
		if s.ref != nil {
			list = append(list, *s.ref)
		}
	}
	return list
}

// single returns the reference with its default, or the computed value, if the text consists of that and nothing else. Otherwise it
// returns nil.
func (t template) single() *span {
	var only *span
	for i := range t {
		switch s := &t[i]; {
		case s.isLiteral() && s.literal != "", !s.isLiteral() && only != nil:
			return nil
		case !s.isLiteral():
			only = s
		}
	}
	return only
}

// wholeNumbers turns floats without a fraction back into integers, at any depth: encoding/json decodes every number as a float. It
// changes lists and maps in place.
func wholeNumbers(v any) any {
	switch x := v.(type) {
	case float64:
		n := &node{}
		n.setFloat(x)
		return n.value
	case []any:
		for i := range x {
			x[i] = wholeNumbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = wholeNumbers(x[k])
		}
	}
	return v
}
