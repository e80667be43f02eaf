package dagspec

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm/runtime"
)

// Names of functions that check values which may be missing. No expression can contain these names: they are not valid
// identifiers.
const (
	guardAny    = "§any"
	guardString = "§string"
	guardNumber = "§number"
	guardTime   = "§time"
	guardBool   = "§boolean"
	guardInt    = "§integer"
)

// options returns the options for compiling an expression that must return want. The expression may use the given references and no
// other names. Compiling also puts guards and charges into the expression.
func (n *names) options(refs []ref, want wanted) []expr.Option {
	options := []expr.Option{
		expr.Env(n.exprTypes(refs)),
		expr.MaxNodes(maxExprNodes),
		expr.DisableBuiltin("now"),
		expr.Patch(&guards{names: n}),
		expr.Patch(&metered{}),
	}
	options = append(append(append(options, functions...), makers...), counters...)
	switch want {
	case wantBool:
		options = append(options, expr.AsBool())
	case wantNumber:
		options = append(options, expr.AsFloat64())
	}
	return options
}

// functions are the functions that this package adds: default, the guards, replacements for the library's functions that use
// the random order of its maps, and a faster uniq.
var functions = []expr.Option{
	expr.Function("default", func(p ...any) (any, error) {
		if p[0] == nil {
			return p[1], nil
		}
		return p[0], nil
	}, new(func(any, any) any)),
	expr.Function(guardAny, guarded, new(func(any, string) any)),
	expr.Function(guardString, guarded, new(func(any, string) string)),
	expr.Function(guardNumber, guardedNumber, new(func(any, string) float64)),
	expr.Function(guardTime, guarded, new(func(any, string) time.Time)),
	expr.Function(guardBool, guarded, new(func(any, string) bool)),
	expr.Function(guardInt, guarded, new(func(any, string) int)),
	expr.DisableBuiltin("keys"),
	expr.DisableBuiltin("values"),
	expr.DisableBuiltin("toPairs"),
	expr.Function("keys", overSorted(func(k string, _ any) any { return k }), new(func(any) []any)),
	expr.Function("values", overSorted(func(_ string, v any) any { return v }), new(func(any) []any)),
	expr.Function("toPairs", overSorted(func(k string, v any) any { return []any{k, v} }), new(func(any) []any)),
	expr.DisableBuiltin("uniq"),
	expr.Function("uniq", func(p ...any) (any, error) { return uniq(p[0]) }, new(func(any) []any)),
}

// uniq returns the elements of a list without duplicates, in the order of their first appearance, as the library's uniq does. The
// library compares each value with each other, which takes quadratic time. It returns an error if the value is no list.
func uniq(list any) ([]any, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return nil, errors.New("the value is not a list")
	}
	kept := []any{}
	alike := map[any][]any{} // values by sortOf: equal values have the same key, but values with the same key may differ
	for i := range v.Len() {
		item := v.Index(i).Interface()
		key := sortOf(item)
		if !slices.ContainsFunc(alike[key], func(other any) bool { return runtime.Equal(item, other) }) {
			alike[key] = append(alike[key], item)
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// sortOf returns a key under which uniq looks for equal values. Equal values have the same key, but values with the same key may
// differ.
func sortOf(v any) any {
	switch x := v.(type) {
	case string, bool, nil:
		return x
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return float64(r.Int())
	case r.CanUint():
		return float64(r.Uint())
	case r.CanFloat():
		return r.Float()
	default:
		return r.Type()
	}
}

// guarded is the function of a guard: it returns p[0], or an error if that is nil. p[1] is the reference as text, for the message.
func guarded(p ...any) (any, error) {
	if p[0] == nil {
		return nil, fmt.Errorf("%s has no value: write default(%s, …) to give a default", p[1], p[1])
	}
	return p[0], nil
}

func guardedNumber(p ...any) (any, error) {
	if i, ok := p[0].(int); ok {
		return float64(i), nil
	}
	return guarded(p...)
}

// overSorted returns a function of expressions that makes a list of a map: the results of pick for its entries, in the order of the
// keys.
func overSorted(pick func(string, any) any) func(p ...any) (any, error) {
	return func(p ...any) (any, error) {
		m, ok := p[0].(map[string]any)
		if !ok {
			return nil, errors.New("the value is not a map")
		}
		list := make([]any, 0, len(m))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			list = append(list, pick(k, m[k]))
		}
		return list, nil
	}
}

// guards puts a guard around every value that may be missing. It removes the guard where the expression handles the missing
// value: in default(x, …), x ?? …, x == nil and x?.y.
type guards struct{ names *names }

// Visit implements ast.Visitor. It gets children before their parents.
func (g *guards) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if g.names.isNull(n.Value) {
			ast.Patch(node, &ast.NilNode{})
		}
	case *ast.MemberNode:
		if n.Optional {
			n.Node = unguarded(n.Node)
		}
		if f := g.missing(n); f != nil {
			g.guard(node, *f)
		}
	case *ast.CallNode:
		if f, ok := n.Callee.(*ast.IdentifierNode); ok && f.Value == "default" && len(n.Arguments) > 0 {
			n.Arguments[0] = relaxed(n.Arguments[0])
		}
	case *ast.BinaryNode:
		_, rightNil := n.Right.(*ast.NilNode)
		_, leftNil := n.Left.(*ast.NilNode)
		equality := n.Operator == "==" || n.Operator == "!="
		if n.Operator == "??" || equality && rightNil {
			n.Left = relaxed(n.Left)
		}
		if equality && leftNil {
			n.Right = relaxed(n.Right)
		}
	}
}

// missing returns the reference that a node stands for if its value may be missing in a run: a variable, an output, an optional
// param or run.previous_logical_at. It returns nil for any other node.
func (g *guards) missing(n *ast.MemberNode) *ref {
	path, dynamic := chain(n)
	if dynamic || len(path) == 0 || len(path) != named(path) || !g.names.isRoot(path[0]) {
		return nil
	}
	f := ref{path: path}
	switch path[0] {
	case "env":
		return &f
	case "params":
		if p := g.names.params[path[1]]; p != nil && !p.Required && p.Default == nil {
			return &f
		}
	case "steps":
		if f.isOutput() {
			return &f
		}
	case "run":
		if f.mayLack() {
			return &f
		}
	}
	return nil
}

// guard replaces *node, which stands for f, by a call that fails if the value is missing. The call has the type of the value if
// that is known.
func (g *guards) guard(node *ast.Node, f ref) {
	name := guardAny
	kind, _ := g.names.check(f)
	switch {
	case f.root() == "env", kind == typeString, g.paramType(f) == "string":
		name = guardString
	case kind == typeNumber, g.paramType(f) == "number":
		name = guardNumber
	case kind == typeTime:
		name = guardTime
	case kind == typeBoolean:
		name = guardBool
	case kind == typeInteger:
		name = guardInt
	}
	inner := *node
	ast.Patch(node, &ast.CallNode{
		Callee:    &ast.IdentifierNode{Value: name},
		Arguments: []ast.Node{inner, &ast.StringNode{Value: f.String()}},
	})
}

func (g *guards) paramType(f ref) string {
	if p := g.names.params[f.path[1]]; f.root() == "params" && p != nil {
		return p.Type
	}
	return ""
}

// unguarded returns the node inside a guard, and any other node unchanged.
func unguarded(n ast.Node) ast.Node {
	if call, ok := n.(*ast.CallNode); ok {
		f, ok := call.Callee.(*ast.IdentifierNode)
		if ok && (f.Value == guardAny || f.Value == guardString || f.Value == guardNumber || f.Value == guardTime || f.Value == guardBool || f.Value == guardInt) {
			return call.Arguments[0]
		}
	}
	return n
}

// relaxed returns a node that has the value nil, where n would fail because its value, or a part of its path, is missing. It may
// change n.
func relaxed(n ast.Node) ast.Node {
	if plain := unguarded(n); plain != n {
		return plain
	}
	m, ok := n.(*ast.MemberNode)
	if !ok || m.Method {
		return n
	}
	m.Node, m.Optional = relaxed(m.Node), true
	chain := &ast.ChainNode{Node: m}
	chain.SetLocation(m.Location())
	return chain
}

var exprTypes = map[valueType]types.Type{
	typeAny: types.Any, typeString: types.String, typeInteger: types.Int, typeNumber: types.Float64, typeBoolean: types.Bool,
	typeList: types.Array(types.Any), typeTime: types.TypeOf(time.Time{}),
	typeDuration: types.TypeOf(time.Duration(0)),
}

// exprTypes returns the types of the given references for the compiler, as a tree of names. A reference to params as a whole stands
// for all params.
func (n *names) exprTypes(refs []ref) types.Map {
	env := types.Map{meterName: types.Any}
	for _, f := range refs {
		if len(f.path) == 1 && f.root() == "params" {
			for name := range n.params {
				n.declare(env, ref{path: []string{"params", name}})
			}
			continue
		}
		n.declare(env, f)
	}
	return env
}

// declare adds the type of a reference to env. A value that may be missing has any type there, and its guard has the type.
func (n *names) declare(env types.Map, f ref) {
	path := f.path[:min(named(f.path), len(f.path))]
	kind, _ := n.check(ref{path: path})
	if f.isOutput() && !n.gathers(f.step()) || f.root() == "env" || f.mayLack() {
		kind = typeAny // the guard returns the type
	}
	at := env
	for _, key := range path[:len(path)-1] {
		next, ok := at[key].(types.Map)
		if !ok {
			next = types.Map{}
			at[key] = next
		}
		at = next
	}
	at[path[len(path)-1]] = exprTypes[kind]
}

// exprEnv returns the values of the given references as the tree of names over which an expression runs, together with m. The
// lookups count toward m. A reference to params as a whole stands for all params.
func (v *view) exprEnv(refs []ref, m *meter) (map[string]any, error) {
	env := map[string]any{meterName: m}
	v.meter = m
	for _, f := range refs {
		if len(f.path) == 1 && f.root() == "params" {
			for name := range v.names.params {
				if err := v.provide(env, ref{path: []string{"params", name}}); err != nil {
					return nil, err
				}
			}
			continue
		}
		if err := v.provide(env, f); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// provide adds the value that a reference leads into to env: for params.x.y it adds params.x. It does nothing if env has that
// already.
func (v *view) provide(env map[string]any, f ref) error {
	path := f.path[:min(named(f.path), len(f.path))]
	if stored(env, path) {
		return nil
	}
	value, err := v.base(f)
	if err != nil {
		return err
	}
	if err := v.meter.see(value, costOfValue); err != nil {
		return err
	}
	store(env, path, exprValue(value))
	return nil
}

// costOfValue is the cost of each part of a value that an expression refers to: the part is checked and copied.
const costOfValue = 8

// stored reports whether the tree env has a value at a path.
func stored(env map[string]any, path []string) bool {
	for _, key := range path[:len(path)-1] {
		env, _ = env[key].(map[string]any)
	}
	_, ok := env[path[len(path)-1]]
	return ok
}

// store puts a value at a path of the tree env, and makes the maps on the way.
func store(env map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		next, ok := env[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			env[key] = next
		}
		env = next
	}
	env[path[len(path)-1]] = value
}

// exprValue converts each int64 in a value to int, with which expr-lang computes. Lists and maps are copied.
func exprValue(v any) any {
	switch x := v.(type) {
	case int64:
		return int(x)
	case []any:
		list := make([]any, len(x))
		for i := range x {
			list[i] = exprValue(x[i])
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(x))
		for k := range x {
			m[k] = exprValue(x[k])
		}
		return m
	}
	return v
}
