package dagspec

import (
	"errors"
	"math/bits"
	"reflect"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// cost charges the meter for an operation, before the operation runs. The operands may be of any type: the operation itself
// refuses types that it cannot handle.
type cost func(m *meter, p []any) error

// costs holds the cost of each operator and function by name. An operation without an entry costs the same for all operands.
var costs = map[string]cost{
	"==": equality, "!=": equality,
	"<": comparison, ">": comparison, "<=": comparison, ">=": comparison,
	"+":          func(m *meter, p []any) error { return made(m, textSize(p...)) },
	"in":         membership,
	"contains":   searching,
	"startsWith": comparison, "endsWith": comparison,
	"matches":     func(m *meter, p []any) error { return matching(m, p[0], p[1].(int)) }, //nolint:forcetypeassert // the visitor puts it there
	"matches any": matchingAny,
	"hash":        hashing,
	"method":      func(m *meter, p []any) error { return seeAll(m, p, 10) },

	"groupBy": func(m *meter, p []any) error { return m.spend(40 + textSize(p...)/4) },
	"sortBy":  func(m *meter, p []any) error { return m.spend(60 + textSize(p...)) },
	"uniq":    distinct,
	"sort":    func(m *meter, p []any) error { return sorting(m, p[0]) },
	"median":  func(m *meter, p []any) error { return seeAll(m, p, 40) },

	"len":  func(m *meter, p []any) error { return m.spend(textSize(p...) / 8) },
	"trim": searching, "trimPrefix": comparison, "trimSuffix": comparison, "hasPrefix": comparison, "hasSuffix": comparison,
	"indexOf": searching, "lastIndexOf": searching,
	"upper": copying, "lower": copying, "toBase64": copying, "fromBase64": copying,
	"split": splitting, "splitAfter": splitting, "replace": replacement, "repeat": repetition, "join": joining,
	"int": copying, "float": copying, "duration": copying,
	"string":   func(m *meter, p []any) error { return seeAll(m, p, 20) },
	"toJSON":   func(m *meter, p []any) error { return look{m, 40, 40}.at(p[0], 0) }, // toJSON indents its output
	"fromJSON": func(m *meter, p []any) error { return m.spend(12 * textSize(p...)) },
	"date":     zoned(func(m *meter, p []any) error { return m.spend(500 + 4*textSize(p...)) }),
	"timezone": zoned(func(m *meter, p []any) error { return m.spend(10_000 + textSize(p...)) }),

	"max": listing, "min": listing, "mean": listing, "sum": listing, "flatten": listing, "fromPairs": listing,
	"reverse": shallow, "concat": shallow, "count": shallow, "get": hashing,
	"keys": mapSorting, "values": mapSorting, "toPairs": mapSorting,

	"..": ranging, "range": ranging, "matrix": combining,
	"format": func(m *meter, p []any) error { return m.spend(50 + 4*textSize(p...)) },
}

var errLocal = errors.New(`the worker's time zone must not decide: name a zone such as "Europe/Paris"`)

// zoned returns a cost that refuses the name of the worker's time zone before it charges. Such a name may come from a param, so the
// check of the source, which refScan makes, does not suffice.
func zoned(charge cost) cost {
	return func(m *meter, p []any) error {
		if slices.ContainsFunc(p, func(v any) bool { return v == "Local" }) {
			return errLocal
		}
		return charge(m, p)
	}
}

// textSize returns the total length in bytes of the values that are texts. Other values count as 0.
func textSize(p ...any) int {
	n := 0
	for _, v := range p {
		if s, ok := v.(string); ok {
			n += len(s)
		}
	}
	return n
}

// seeAll charges for every part of all values, as meter.see does.
func seeAll(m *meter, p []any, times int) error {
	for _, v := range p {
		if err := m.see(v, times); err != nil {
			return err
		}
	}
	return nil
}

// made charges for a text of the given length that an evaluation creates. This limits the memory of the evaluation too.
func made(m *meter, bytes int) error { return m.spend(bytes / 2) }

func copying(m *meter, p []any) error { return made(m, textSize(p...)) }

func searching(m *meter, p []any) error { return m.spend(textSize(p...) / 4) }

func listing(m *meter, p []any) error { return seeAll(m, p, 10) }

func hashing(m *meter, p []any) error { return m.spend(5 + textSize(p...)/4) }

func shallow(m *meter, p []any) error {
	n := 0
	for _, v := range p {
		n += size(v)
	}
	return m.spend(10 * n)
}

// comparison charges for the shorter of two texts, because an operator reads no further. Operands that are not both texts are free.
func comparison(m *meter, p []any) error {
	if len(p) < 2 || !isText(p[0]) || !isText(p[1]) {
		return nil
	}
	return m.spend(min(len(p[0].(string)), len(p[1].(string))) / 16) //nolint:forcetypeassert // isText looked
}

// equality charges for comparing two texts, or two lists or maps of the same length. All else is free: the operator compares
// lengths first, and numbers at once.
func equality(m *meter, p []any) error {
	switch {
	case isText(p[0]):
		return comparison(m, p)
	case isMany(p[0]) && isMany(p[1]) && size(p[0]) == size(p[1]):
		return m.see(p[0], 20)
	}
	return nil
}

// membership charges for finding p[0] in p[1]: for a lookup if p[1] is a map, and for a comparison with each element if it is a
// list.
func membership(m *meter, p []any) error {
	if _, ok := p[1].(map[string]any); ok {
		return hashing(m, p[:1])
	}
	if isMany(p[0]) {
		return m.see(p[1], 20)
	}
	return m.spend(size(p[1]) * (10 + textSize(p[0])/16))
}

// matching charges for matching a text against a pattern with the given number of instructions. It assumes the worst case: each
// byte of the text meets each instruction.
func matching(m *meter, text any, program int) error {
	return m.spend(10 + (textSize(text)+1)*program)
}

// matchingAny charges for a match against a pattern that is known only at run time: for compiling it, and for matching.
func matchingAny(m *meter, p []any) error {
	pattern, _ := p[1].(string)
	if err := m.spend(500 + 20*len(pattern)); err != nil {
		return err
	}
	program := programSize(pattern)
	if err := m.spend(100 * program); err != nil { // the compilation of the pattern
		return err
	}
	return matching(m, p[0], program)
}

func sorting(m *meter, list any) error {
	if err := m.see(list, 2); err != nil {
		return err
	}
	n := size(list)
	return m.spend(5 * n * bits.Len(uint(n)))
}

func mapSorting(m *meter, p []any) error {
	keys, ok := p[0].(map[string]any)
	if !ok {
		return nil
	}
	for k := range keys {
		if err := m.spend(10*bits.Len(uint(len(keys))) + len(k)/2); err != nil {
			return err
		}
	}
	return nil
}

func splitting(m *meter, p []any) error {
	text, _ := p[0].(string)
	by, ok := p[1].(string)
	if !ok {
		return nil
	}
	if err := m.spend(len(text) / 4); err != nil {
		return err
	}
	return m.spend(5 * (strings.Count(text, by) + 1))
}

func replacement(m *meter, p []any) error {
	text, _ := p[0].(string)
	old, _ := p[1].(string)
	with, _ := p[2].(string)
	if err := m.spend(len(text) / 4); err != nil {
		return err
	}
	n := strings.Count(text, old)
	if err := m.spend(5 * n); err != nil {
		return err
	}
	return made(m, len(text)+n*len(with))
}

func repetition(m *meter, p []any) error {
	n, ok := number(p[1])
	if !ok || n < 0 || n > exprUnits {
		return nil // the operation refuses a negative or huge number
	}
	return made(m, textSize(p[0])*int(n))
}

func joining(m *meter, p []any) error {
	if err := m.see(p[0], 8); err != nil {
		return err
	}
	if len(p) < 2 {
		return nil
	}
	return made(m, size(p[0])*textSize(p[1]))
}

// distinct charges for uniq: once for all elements, and for each list or map among them once more for all elements, because uniq
// may compare it with every other. It finds other values by a lookup.
func distinct(m *meter, p []any) error {
	if err := m.see(p[0], 10); err != nil {
		return err
	}
	list, _ := p[0].([]any)
	many := 0
	for _, v := range list {
		if isMany(v) {
			many++
		}
	}
	if many == 0 {
		return nil
	}
	return m.see(p[0], 20*many)
}

// exprUnits limits the cost of one evaluation to about 100 ms of one core. A unit is about 5 ns of work. The meter counts
// work and not time, so that every worker decides alike, regardless of its load.
const exprUnits = 20_000_000

const (
	evalUnits  = 300  // cost of every evaluation
	deepestSee = 1000 // depth of nested lists and maps that an evaluation may reach
)

// errCost means that an evaluation exceeds its limit.
var errCost = errors.New("the expression needs more than 100 ms of one core: compute the value in a step")

// meter counts the cost of one evaluation. It belongs to one goroutine.
type meter struct{ limit, spent int }

func newMeter(limit int) *meter { return &meter{limit: limit} }

// spend charges for work before it is done. If the work exceeds the limit, or units is negative, it uses up the meter and returns
// errCost. The caller must then not do the work.
func (m *meter) spend(units int) error {
	if units < 0 || units > m.limit-m.spent {
		m.spent = m.limit
		return errCost
	}
	m.spent += units
	return nil
}

// see charges for every part of a value, at any depth: times units for each part, more for long texts and for parts deep inside. It
// returns errCost at the limit, or if the value is nested deeper than deepestSee.
func (m *meter) see(v any, times int) error { return look{m, times, times / 4}.at(v, 0) }

// look charges for the parts of a value: times units for each part, and slope units more for each level of depth.
type look struct {
	*meter
	times, slope int
}

// at charges for a value and all its parts; level is the depth of the value in the outermost one. It returns errCost at the limit
// of the meter, or if level exceeds deepestSee.
func (l look) at(v any, level int) error {
	if level > deepestSee {
		l.spent = l.limit
		return errCost
	}
	switch x := v.(type) {
	case string:
		return l.part(len(x), level)
	case []any:
		return l.list(len(x), func(i int) any { return x[i] }, level)
	case []string:
		return l.list(len(x), func(i int) any { return x[i] }, level)
	case map[string]any:
		for k, item := range x {
			if err := l.part(len(k), level); err != nil {
				return err
			}
			if err := l.at(item, level+1); err != nil {
				return err
			}
		}
		return l.part(0, level)
	}
	return l.other(reflect.ValueOf(v), level)
}

// part charges for one part of a value at a level of depth, with a text of the given length, or 0.
func (l look) part(bytes, level int) error {
	return l.spend(l.times + l.slope*level + l.times*(bytes/8))
}

func (l look) list(n int, item func(int) any, level int) error {
	for i := range n {
		if err := l.at(item(i), level+1); err != nil {
			return err
		}
	}
	return l.part(0, level)
}

// other does the work of at for types that only functions of the library return, such as lists of numbers. It counts any value that
// is no list or map as one part.
func (l look) other(v reflect.Value, level int) error {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		return l.list(v.Len(), func(i int) any { return v.Index(i).Interface() }, level)
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			for _, part := range []any{each.Key().Interface(), each.Value().Interface()} {
				if err := l.at(part, level+1); err != nil {
					return err
				}
			}
		}
	}
	return l.part(0, level)
}

// size returns the length of a text in bytes, or the number of elements of a list or map, and 0 for anything else.
func size(v any) int {
	switch x := v.(type) {
	case nil:
		return 0
	case string:
		return len(x)
	case []any:
		return len(x)
	case map[string]any:
		return len(x)
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return r.Len()
	}
	return 0
}

func isText(v any) bool { _, ok := v.(string); return ok }

// isMany reports whether a value is a list or a map, empty ones included.
func isMany(v any) bool {
	switch reflect.ValueOf(v).Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return true
	}
	return false
}

// Names that metered adds to an expression to count its cost. No expression can contain them: they are not valid
// identifiers.
const (
	meterName = "§meter" // the meter of the evaluation, a variable
	tickName  = "§tick"
	costName  = "§cost"
)

// counters are the functions that metered adds to expressions.
var counters = []expr.Option{
	expr.Function(tickName, func(p ...any) (any, error) {
		return true, p[0].(*meter).spend(p[1].(int)) //nolint:forcetypeassert // the visitor puts them there
	}, new(func(any, int) bool)),
	expr.Function(costName, func(p ...any) (any, error) {
		m := p[0].(*meter) //nolint:forcetypeassert // the visitor puts it there
		if err := m.spend(costOfCall); err != nil {
			return true, err
		}
		return true, costs[p[1].(string)](m, p[2:]) //nolint:forcetypeassert // the visitor names it
	}, new(func(any, string, ...any) bool)),
}

const (
	costOfCall  = 15 // of the counting itself
	costOfRound = 15 // of one round of a predicate, without its nodes
	costOfNode  = 4  // of each node of the predicate
)

// metered changes an expression so that work is charged before it is done, if its cost grows with the operands: each round
// of a predicate, and each operator and function on texts, lists and maps. It runs after guards.
type metered struct{ variables int }

// Visit implements ast.Visitor. It gets children before their parents.
func (v *metered) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.PredicateNode:
		round := &nodeCount{}
		ast.Walk(&n.Node, round)
		n.Node = &ast.SequenceNode{Nodes: []ast.Node{call(tickName, &ast.IntegerNode{Value: costOfRound + costOfNode*round.nodes}), n.Node}}
	case *ast.BinaryNode:
		v.binary(node, n)
	case *ast.MemberNode:
		if !isShort(n.Property) {
			n.Property = v.counted("hash", n.Property)
		}
	case *ast.PairNode:
		if !isShort(n.Key) {
			n.Key = v.counted("hash", n.Key)
		}
	case *ast.BuiltinNode:
		v.builtin(node, n)
	case *ast.CallNode:
		v.call(node, n)
	}
}

type nodeCount struct{ nodes int }

// Visit implements ast.Visitor.
func (c *nodeCount) Visit(*ast.Node) { c.nodes++ }

func (v *metered) binary(node *ast.Node, n *ast.BinaryNode) {
	op := n.Operator
	switch op {
	case "==", "!=", "<", ">", "<=", ">=":
		if isShort(n.Left) || isShort(n.Right) {
			return
		}
	case "+":
		if isNumber(n.Left) || isNumber(n.Right) {
			return
		}
	case "in":
		if list, ok := n.Right.(*ast.ArrayNode); ok && allShort(list.Nodes) {
			n.Left = v.counted("hash", n.Left)
			return
		}
	case "matches":
		if pattern, ok := n.Right.(*ast.StringNode); ok {
			v.bound(node, "matches", []*ast.Node{&n.Left}, &ast.IntegerNode{Value: programSize(pattern.Value)})
			return
		}
		op = "matches any"
	}
	if _, ok := costs[op]; ok {
		v.bound(node, op, []*ast.Node{&n.Left, &n.Right})
	}
}

func (v *metered) builtin(node *ast.Node, n *ast.BuiltinNode) {
	switch n.Name {
	case "groupBy", "sortBy":
		if key, ok := n.Arguments[1].(*ast.PredicateNode); ok {
			key.Node = v.counted(n.Name, key.Node)
		}
	}
	if _, ok := costs[n.Name]; !ok {
		return
	}
	for _, arg := range n.Arguments {
		if _, ok := arg.(*ast.PredicateNode); ok {
			return // the rounds are charged instead
		}
	}
	v.bound(node, n.Name, pointers(n.Arguments))
}

func (v *metered) call(node *ast.Node, n *ast.CallNode) {
	f, ok := n.Callee.(*ast.IdentifierNode)
	switch {
	case !ok:
		v.bound(node, "method", pointers(n.Arguments))
	case costs[f.Value] != nil:
		v.bound(node, f.Value, pointers(n.Arguments))
	}
}

// counted returns a node that computes value, charges for the operation op on it, and has the same value.
func (v *metered) counted(op string, value ast.Node) ast.Node {
	name := v.variable()
	count := call(costName, &ast.StringNode{Value: op}, &ast.IdentifierNode{Value: name})
	let := &ast.VariableDeclaratorNode{
		Name: name, Value: value,
		Expr: &ast.SequenceNode{Nodes: []ast.Node{count, &ast.IdentifierNode{Value: name}}},
	}
	let.SetLocation(value.Location())
	return let
}

// bound replaces *node, which is an operation on operands, by three steps: compute the operands into variables, charge for the
// operation op, and run it. Constants need no variable. The charge gets the operands and then the nodes in more as arguments.
func (v *metered) bound(node *ast.Node, op string, operands []*ast.Node, more ...ast.Node) {
	args := []ast.Node{&ast.StringNode{Value: op}}
	var names []string
	var values []ast.Node
	for _, operand := range operands {
		if isConstant(*operand) {
			args = append(args, *operand)
			continue
		}
		name := v.variable()
		names, values = append(names, name), append(values, *operand)
		args = append(args, &ast.IdentifierNode{Value: name})
		*operand = &ast.IdentifierNode{Value: name}
	}
	inner := *node
	var whole ast.Node = &ast.SequenceNode{Nodes: []ast.Node{call(costName, append(args, more...)...), inner}}
	whole.SetLocation(inner.Location())
	for i, name := range slices.Backward(names) {
		let := &ast.VariableDeclaratorNode{Name: name, Value: values[i], Expr: whole}
		let.SetLocation(inner.Location())
		whole = let
	}
	*node = whole
}

// variable returns the name of a new variable, which no expression can contain.
func (v *metered) variable() string {
	v.variables++
	return "§" + strconv.Itoa(v.variables)
}

// call returns a call of the counter with the given name, tickName or costName. The meter is its first argument.
func call(name string, args ...ast.Node) ast.Node {
	return &ast.CallNode{
		Callee:    &ast.IdentifierNode{Value: name},
		Arguments: append([]ast.Node{&ast.IdentifierNode{Value: meterName}}, args...),
	}
}

func pointers(nodes []ast.Node) []*ast.Node {
	list := make([]*ast.Node, len(nodes))
	for i := range nodes {
		list[i] = &nodes[i]
	}
	return list
}

func isConstant(n ast.Node) bool {
	switch n.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
		return true
	}
	return false
}

// isShort reports whether the value of a node costs next to nothing to compare or to look up: a constant, a number or a boolean.
func isShort(n ast.Node) bool {
	return isConstant(n) || isNumber(n) || n.Type().Kind() == reflect.Bool
}

// allShort reports whether all nodes are constants.
func allShort(nodes []ast.Node) bool {
	for _, n := range nodes {
		if !isConstant(n) {
			return false
		}
	}
	return true
}

func isNumber(n ast.Node) bool {
	switch n.Type().Kind() {
	case reflect.Int, reflect.Int64, reflect.Float64:
		return true
	}
	return false
}

// programSize returns about how many instructions a pattern compiles to, at most exprUnits, and 1 for a pattern that does not
// compile. It estimates the number from the syntax tree, because a pattern may repeat a large part so often that compiling it would
// take too long.
func programSize(pattern string) int {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 1
	}
	return min(instructions(tree), exprUnits)
}

func instructions(re *syntax.Regexp) int {
	n := 2
	for _, sub := range re.Sub {
		n = min(n+instructions(sub), exprUnits)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 8
	case syntax.OpRepeat:
		n *= max(re.Max, re.Min+1, 1)
	}
	return n
}
