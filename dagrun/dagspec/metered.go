package dagspec

import (
	"reflect"
	"regexp/syntax"
	"slices"
	"strconv"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

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

// counted returns a node that computes a value, charges for it, and returns it.
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

// bound replaces a node by three steps: compute the operands into variables, charge for the operation, and run it. The
// further arguments of the charge are in more.
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

func (v *metered) variable() string {
	v.variables++
	return "§" + strconv.Itoa(v.variables)
}

// call returns a call of one of the counters.
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

// isShort reports whether a value costs next to nothing to compare or to look up.
func isShort(n ast.Node) bool {
	return isConstant(n) || isNumber(n) || n.Type().Kind() == reflect.Bool
}

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

// programSize returns about how many instructions a pattern compiles to, and 1 for a pattern that does not compile. It
// estimates the number from the syntax tree, because a pattern may repeat a large part so often that compiling it would take
// too long.
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
