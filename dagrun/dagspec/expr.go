package dagspec

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Limits of one expression.
const (
	maxExprNodes  = 1000
	maxExprMemory = 200_000 // elements of lists and maps that one evaluation makes
	maxExprDepth  = 3       // nested predicates such as filter()
)

// wanted is the type that an expression must return.
type wanted uint8

const (
	wantBool wanted = iota
	wantNumber
	wantText
	wantValue // any value that JSON can hold
	wantList
)

// expression is a compiled expression. It may be evaluated against any scope.
type expression struct {
	text    string
	refs    []ref
	program *vm.Program
	names   *names
}

// compile checks and compiles an expression that must return want. If there are problems, it returns these and no expression. It
// returns several problems only about the names that the expression uses.
func (n *names) compile(text string, want wanted) (*expression, []problem) {
	if i := strings.Index(text, "${"); i >= 0 {
		return nil, []problem{{text[i:], "${ does not belong in an expression", "write only the name, such as params.x or steps.a.outputs.n"}}
	}
	src := readSource(text)
	tree, err := parser.ParseWithConfig(src.read, budget())
	if err != nil {
		return nil, []problem{exprProblem(src, err, want)}
	}
	refs, problems := n.references(src, tree.Node)
	if len(problems) > 0 {
		return nil, problems
	}
	program, err := expr.Compile(src.read, n.options(refs, want)...)
	if err != nil {
		return nil, []problem{exprProblem(src, err, want)}
	}
	if t := program.Node().Type(); want == wantList && !mayBeList(t) {
		return nil, []problem{{"", "the expression must be a list, but is " + goNoun(t.String()), "write [a, b], range(1, 4) or the name of a list"}}
	}
	return &expression{text: text, refs: refs, program: program, names: n}, nil
}

// mayBeList reports whether a value of the type is a list, or may turn out to be one in a run.
func mayBeList(t reflect.Type) bool {
	return t == nil || t.Kind() == reflect.Interface || t.Kind() == reflect.Slice
}

// isExpression reports whether a text has the form of an expression with an operator or a call. Its names need not be known.
func isExpression(text string) bool {
	if len(text) > maxComputedBytes || !strings.ContainsAny(text, " ()[]+-*/?<>=!&|") {
		return false
	}
	_, err := parser.ParseWithConfig(readSource(text).read, budget())
	return err == nil
}

func budget() *conf.Config {
	c := conf.CreateNew()
	c.MaxNodes = maxExprNodes
	return c
}

// references returns the references in a parsed expression, and all problems with its names: unknown names, computed names, and
// predicates nested too deep.
func (n *names) references(src source, root ast.Node) ([]ref, []problem) {
	s := &refScan{inner: map[ast.Node]bool{}, local: map[string]bool{}}
	ast.Walk(&root, s)
	refs := make([]ref, 0, len(s.chains))
	problems := s.problems
	if depth(root) > maxExprDepth {
		problems = append(problems, problem{"", fmt.Sprintf("more than %d predicates inside each other", maxExprDepth), "compute the value in a step"})
	}
	for _, node := range s.chains {
		path, dynamic := chain(node)
		if s.inner[node] || len(path) == 0 || s.local[path[0]] || !n.isRoot(path[0]) && len(s.local) > 0 {
			continue
		}
		if len(path) == 1 && n.isNull(path[0]) {
			continue
		}
		f := ref{path: path, part: src.partAt(rootOf(node))}
		if len(path) == 1 && path[0] == "params" && !dynamic {
			refs = append(refs, f)
			continue
		}
		if dynamic {
			problems = append(problems, problem{f.part, fmt.Sprintf("%s needs a name, not a computed value", f), `write steps.a or steps["a-b"], not a computed name`})
			continue
		}
		if _, p := n.check(f); p != nil {
			problems = append(problems, *p)
			continue
		}
		refs = append(refs, f)
	}
	return refs, problems
}

// isRoot reports whether a name may begin a reference: params, steps, env, run, error, or the name of the item in a foreach.
func (n *names) isRoot(name string) bool {
	switch name {
	case "params", "steps", "env", "run", "error":
		return true
	}
	return n.isItem(name)
}

// isNull reports whether a name means the null of YAML and JSON, which the library calls nil. It does not if the item of the
// foreach is called null.
func (n *names) isNull(name string) bool { return name == "null" && !n.isItem(name) }

// partAt returns the text from a node on as it is written, up to the next blank, parenthesis or operator.
func (s source) partAt(n ast.Node) string {
	rest := s.from(n.Location().From)
	if end := strings.IndexFunc(rest, func(r rune) bool { return strings.ContainsRune(" \t\n()=!<>+*/%,&|?", r) }); end > 0 {
		return rest[:end]
	}
	return rest
}

// refScan collects the names in an expression, with the paths behind them, and reports names that are not allowed.
type refScan struct {
	chains   []ast.Node
	inner    map[ast.Node]bool // part of a longer chain, or the name of a function
	local    map[string]bool   // declared by let
	problems []problem
}

// Visit implements ast.Visitor. It gets children before their parents.
func (s *refScan) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		s.chains = append(s.chains, n)
		if n.Value == "$env" {
			s.problems = append(s.problems, problem{"$env", "$env is not known", "write only the name, such as params.x, steps.a.outputs.n or env.NAME"})
		}
	case *ast.MemberNode:
		s.chains = append(s.chains, n)
		s.inner[n.Node] = true
		if c, ok := n.Node.(*ast.ChainNode); ok {
			s.inner[c.Node] = true
		}
	case *ast.CallNode:
		if f, ok := n.Callee.(*ast.IdentifierNode); ok {
			s.call(f)
			s.layout(f, n.Arguments)
		}
	case *ast.BuiltinNode:
		if n.Name == "now" {
			s.call(&ast.IdentifierNode{Value: "now"})
		}
	case *ast.BinaryNode:
		s.comparison(n)
	case *ast.VariableDeclaratorNode:
		s.local[n.Name] = true
		if n.Name == "steps" {
			s.problems = append(s.problems, problem{n.Name, "let steps: the name has a meaning already", "choose another name"})
		}
	case *ast.StringNode:
		if n.Value == "Local" {
			s.problems = append(s.problems, problem{"Local", "the worker's time zone must not decide", `name a zone: .In(timezone("Europe/Paris"))`})
		}
	}
}

// comparison adds a problem if a state or kind is compared by == or != with a text that is no state or kind.
func (s *refScan) comparison(n *ast.BinaryNode) {
	word, ok := n.Right.(*ast.StringNode)
	path, _ := chain(n.Left)
	known := stateWords[strings.Join(path, ".")]
	if len(path) == 3 && path[0] == "steps" && path[2] == "state" {
		known = taskStates
	}
	if !ok || known == nil || n.Operator != "==" && n.Operator != "!=" || slices.Contains(known, word.Value) {
		return
	}
	s.problems = append(s.problems, problem{word.Value, fmt.Sprintf("%s is never %q", strings.Join(path, "."), word.Value), knownHint(word.Value, known, "the value is one of "+oneOf(known))})
}

var (
	taskStates = statesOf(dagrun.TaskReplaced)
	stateWords = map[string][]string{
		"run.state":  statesOf(dagrun.RunCanceled),
		"error.kind": {"exit", "signal", "timeout", "spawn", "lost", "output", "http", "sql", "panic", "publish", "rejected", "child"},
	}
)

// statesOf returns the names of the states from 0 to last, last included.
func statesOf[S interface {
	~uint8
	String() string
}](last S) []string {
	var list []string
	for s := S(0); s <= last; s++ {
		list = append(list, s.String())
	}
	return list
}

func (s *refScan) call(f *ast.IdentifierNode) {
	s.inner[f] = true
	if f.Value == "now" {
		s.problems = append(s.problems, problem{
			"now", "now() is not available: a resumed run must make the same decision",
			"use run.logical_at, the logical time of the run",
		})
	}
}

// depth returns how many predicates of an expression are nested in each other at most: 0 for none, 1 for predicates side by side.
func depth(n ast.Node) int {
	d := &depthScan{depth: map[ast.Node]int{}}
	ast.Walk(&n, d)
	return d.deepest
}

type depthScan struct {
	depth   map[ast.Node]int
	deepest int
}

// Visit implements ast.Visitor. It gets a predicate right after the predicates in it, and counts one level more than the
// deepest of them.
func (d *depthScan) Visit(node *ast.Node) {
	if p, ok := (*node).(*ast.PredicateNode); ok {
		inner := &predicateScan{}
		ast.Walk(&p.Node, inner)
		for _, q := range inner.found {
			d.depth[p] = max(d.depth[p], d.depth[q])
		}
		d.depth[p]++
		d.deepest = max(d.deepest, d.depth[p])
	}
}

type predicateScan struct{ found []ast.Node }

// Visit implements ast.Visitor. It collects predicates.
func (s *predicateScan) Visit(node *ast.Node) {
	if p, ok := (*node).(*ast.PredicateNode); ok {
		s.found = append(s.found, p)
	}
}

// chain returns the path of an expression like a.b["c"], in which computed parts are left out. The path is nil if the expression is
// no such chain. dynamic reports that a part which must be written as a name is computed, as in steps[x]; then the path ends before
// it.
func chain(n ast.Node) (path []string, dynamic bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return []string{n.Value}, false
	case *ast.ChainNode:
		return chain(n.Node)
	case *ast.MemberNode:
		path, dynamic = chain(n.Node)
		if len(path) == 0 || dynamic {
			return path, dynamic
		}
		if s, ok := n.Property.(*ast.StringNode); ok {
			return append(path, s.Value), false
		}
		return path, len(path) < named(path)
	}
	return nil, false
}

// named returns how many parts of a path, from its beginning, must be written as names. Parts after these lead into a value and may
// be computed. The path must not be empty.
func named(path []string) int {
	switch path[0] {
	case "steps":
		if len(path) > 2 && (path[2] == "outputs" || path[2] == "items") {
			return 4
		}
		return 3
	case "params", "env", "run", "error":
		return 2
	}
	return 1
}

// rootOf returns the node at the beginning of a chain: a in a.b["c"].
func rootOf(n ast.Node) ast.Node {
	for {
		switch v := n.(type) {
		case *ast.MemberNode:
			n = v.Node
		case *ast.ChainNode:
			n = v.Node
		default:
			return n
		}
	}
}

// exprProblem translates an error of the expression library into this package's words. want is the type that the expression should
// return.
func exprProblem(src source, err error, want wanted) problem {
	msg, part := err.Error(), ""
	if fe, ok := errors.AsType[*file.Error](err); ok {
		msg, part = fe.Message, src.from(fe.From)
	}
	msg, _, _ = strings.Cut(msg, "\n")
	if got, ok := strings.CutPrefix(msg, "expected bool, but got "); ok && want == wantBool {
		return problem{"", "the expression must be true or false, but is " + goNoun(got), "compare the value with another value: … == …"}
	}
	if got, ok := strings.CutPrefix(msg, "expected float64, but got "); ok && want == wantNumber {
		return problem{"", "the expression must be a number, but is " + goNoun(got), ""}
	}
	hint := ""
	argument := wrongArgument.FindStringSubmatch(msg)
	if argument != nil {
		msg = fmt.Sprintf("%s needs %s, not %s", argument[3], goNoun(argument[2]), goNoun(argument[1]))
	}
	switch {
	case argument != nil && argument[2] == "time.Time" && argument[1] == "string":
		hint = "make a time of the text: date(…)"
	case argument != nil && argument[2] == "string" && slices.Contains([]string{"int", "float64", "bool"}, argument[1]) && argument[3] != "date", textAndNumber.MatchString(msg):
		hint = "make a text of the other value: string(…)"
	case strings.HasSuffix(msg, "not enough arguments to call range"):
		hint = "write the first number and the one behind the last: range(0, 3) has 0, 1 and 2"
	case strings.Contains(msg, `Operator("=")`):
		hint = "compare with =="
	case strings.Contains(msg, "+ (mismatched types []"):
		hint = "join lists with concat(a, b)"
	case strings.Contains(msg, "unknown name"):
		hint = `texts are quoted: "prod"`
		if name, rest, _ := strings.Cut(part, "("); rest != "" {
			if near, ok := nearest(name, functionNames); ok {
				hint = near
			}
		}
	}
	return problem{part, "not a valid expression: " + msg, hint}
}

var (
	// wrongArgument and textAndNumber match messages of the library.
	wrongArgument = regexp.MustCompile(`^cannot use (.+) as argument \(type (.+)\) to call (\w+)`)
	textAndNumber = regexp.MustCompile(`\+ \(mismatched types (?:(?:int|float64|bool) and string|string and (?:int|float64|bool))\)`)
)

// goNoun returns words for people for a Go type, such as "a list". It returns the name of an unknown type unchanged.
func goNoun(t string) string {
	nouns := map[string]string{
		"string": "a text", "int": "a whole number", "float64": "a number", "[]interface {}": "a list", "[]string": "a list",
		"map[string]interface {}": "a map", "time.Time": "a time", "bool": "true or false", "nil": "nothing",
	}
	if noun, ok := nouns[t]; ok {
		return noun
	}
	return t
}

// eval runs the expression over the values that scope has now, and returns its result. It adds the cost to scope if that counts
// costs, after an error too.
func (e *expression) eval(scope dagrun.Scope) (any, error) {
	m := newMeter(exprUnits)
	defer func() { spent(scope, m) }()
	v, err := newView(scope, e.names)
	if err != nil {
		return nil, err
	}
	env, err := v.exprEnv(e.refs, m)
	if err != nil {
		return nil, err
	}
	return e.run(env, m)
}

// spent adds the cost that a meter has counted to a scope that counts costs. It does nothing for any other scope.
func spent(scope dagrun.Scope, m *meter) {
	if s, ok := scope.(dagrun.Spender); ok {
		s.Spend(m.spent)
	}
}

// run evaluates the expression over env, which must hold the values of all its references. Its error is errCost if the limit of m
// is exceeded, and else a short message for people.
func (e *expression) run(env map[string]any, m *meter) (any, error) {
	if err := m.spend(evalUnits); err != nil {
		return nil, err
	}
	machine := vm.VM{MemoryBudget: maxExprMemory}
	out, err := machine.Run(e.program, env)
	if errors.Is(err, errCost) {
		return nil, errCost
	}
	if fe, ok := errors.AsType[*file.Error](err); ok {
		if got, ok := strings.CutPrefix(fe.Message, "invalid operation: bool("); ok {
			return nil, fmt.Errorf("the value is %s, not true or false", goNoun(strings.TrimSuffix(got, ")")))
		}
		if m := conversion.FindStringSubmatch(fe.Message); m != nil {
			return nil, fmt.Errorf("%s needs %s, not %s", cmp.Or(leadingName.FindString(readSource(e.text).from(fe.From)), "the function"), goNoun(m[2]), goNoun(m[1]))
		}
		return nil, errors.New(shortened(fe.Message, messageRunesMax))
	}
	return out, err
}

var (
	// conversion matches the message of a function of the library that met a value of a wrong type.
	conversion  = regexp.MustCompile(`^interface conversion: interface \{\} is (.+), not (.+)$`)
	leadingName = regexp.MustCompile(`^[A-Za-z_]+`)
)

const messageRunesMax = 500 // of a message, which may quote a long value

// shortened returns a text of up to most characters unchanged. It cuts a longer one after these and adds an ellipsis.
func shortened(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// String returns the expression as it was written.
func (e *expression) String() string { return e.text }

// usesItem reports whether the expression refers to the item of its foreach step.
func (e *expression) usesItem() bool {
	for _, f := range e.refs {
		if e.names.item != "" && f.root() == e.names.item {
			return true
		}
	}
	return false
}

// Eval implements dagrun.Condition. It returns an error if the expression fails or its value is no boolean.
func (e *expression) Eval(scope dagrun.Scope) (bool, error) {
	out, err := e.eval(scope)
	if err != nil {
		return false, fmt.Errorf("%s: %w", e.text, err)
	}
	b, ok := out.(bool)
	if !ok {
		return false, fmt.Errorf("%s: the value is %s, not true or false", e.text, goNoun(fmt.Sprintf("%T", out)))
	}
	return b, nil
}

// Number implements dagrun.Number for a priority. It returns an error if the expression fails or its value is no whole number from
// -100 to 100.
func (e *expression) Number(scope dagrun.Scope) (int, error) {
	out, err := e.eval(scope)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", e.text, err)
	}
	f, ok := out.(float64)
	if !ok || f != float64(int(f)) || f < -100 || f > 100 {
		return 0, fmt.Errorf("%s: the value is %v, not a whole number from -100 to 100", e.text, out)
	}
	return int(f), nil
}

// Text implements dagrun.Text for a key. It returns an error if the expression fails, or if its value is null or an empty text.
// Values of other types become text by asText.
func (e *expression) Text(scope dagrun.Scope) (string, error) { return e.asKey(e.eval(scope)) }

// asKey converts the result of an evaluation, with its error, to a key. null and an empty text are errors.
func (e *expression) asKey(out any, err error) (string, error) {
	if err != nil {
		return "", fmt.Errorf("%s: %w", e.text, err)
	}
	if out == nil || out == "" {
		return "", fmt.Errorf("%s: the value is empty, and cannot be a key", e.text)
	}
	return asText(out)
}
