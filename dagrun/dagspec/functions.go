package dagspec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	library "github.com/expr-lang/expr/builtin"
)

// makers are the functions that make lists and texts of dates. Each is charged by costs before it makes anything.
var makers = []expr.Option{
	expr.Function("range", func(p ...any) (any, error) { return numbersFrom(p[0], p[1]) }, new(func(any, any) []any)),
	expr.Function("matrix", func(p ...any) (any, error) { return matrix(p[0]) }, new(func(any) []any)),
	expr.Function("format", func(p ...any) (any, error) {
		return p[0].(time.Time).Format(p[1].(string)), nil //nolint:forcetypeassert // the library checks the types
	}, new(func(time.Time, string) string)),
	expr.DisableBuiltin("date"),
	expr.Function("date", date,
		new(func(*time.Location, string, string, string) time.Time), new(func(*time.Location, string, string) time.Time),
		new(func(*time.Location, string) time.Time), new(func(string, string, string) time.Time), new(func(string, string) time.Time),
		new(func(string) time.Time)),
}

// date is the library's function of that name, and reads a time without a zone as UTC. The library would take the zone of the worker
// for a time with the same offset, and for an abbreviation such as CET. Then the result would depend on the worker.
func date(p ...any) (any, error) {
	if _, zoned := p[0].(*time.Location); !zoned {
		p = append([]any{time.UTC}, p...)
	}
	return library.Builtins[library.Index["date"]].Func(p...)
}

// functionNames are the names of all functions of expressions.
var functionNames = append([]string{"default", "range", "matrix", "format"}, library.Names...)

// numbersFrom returns the whole numbers from a to below b, none if b is not more than a.
func numbersFrom(a, b any) ([]any, error) {
	n, ok := distance(a, b)
	if !ok {
		return nil, errors.New("range needs two whole numbers")
	}
	if n > maxExprMemory {
		return nil, fmt.Errorf("range makes %d numbers, more than %d", n, maxExprMemory)
	}
	first, _ := integer(a)
	list := make([]any, n)
	for i := range list {
		list[i] = int(first) + i
	}
	return list, nil
}

// distance returns how many whole numbers there are from a to below b, at most exprUnits. It returns false if one of the two is no
// whole number.
func distance(a, b any) (int, bool) {
	from, okFrom := integer(a)
	to, okTo := integer(b)
	if !okFrom || !okTo || isText(a) || isText(b) {
		return 0, false
	}
	if to <= from {
		return 0, true
	}
	if n := uint64(to) - uint64(from); n < exprUnits { // an int64 could overflow
		return int(n), true
	}
	return exprUnits, true
}

// matrix returns a map for each combination of one element of each list in a map of lists. The combinations are in the order of
// the lists' sorted names: the elements of the last list change fastest.
func matrix(lists any) ([]any, error) {
	m, ok := lists.(map[string]any)
	if !ok || len(m) == 0 {
		return nil, errors.New(`matrix needs a map of lists, such as {os: ["a", "b"], version: [1, 2]}`)
	}
	names := sortedKeys(m)
	for _, name := range names {
		if k := reflect.ValueOf(m[name]).Kind(); k != reflect.Slice && k != reflect.Array {
			return nil, fmt.Errorf("matrix: %s is not a list", shortened(name, sourceRunesMax))
		}
	}
	n := combinations(m)
	if n*len(names) > maxExprMemory {
		return nil, fmt.Errorf("matrix makes more than %d values", maxExprMemory)
	}
	list := make([]any, n)
	for i := range list {
		one, rest := make(map[string]any, len(names)), i
		for _, name := range slices.Backward(names) {
			values := reflect.ValueOf(m[name])
			one[name] = values.Index(rest % values.Len()).Interface()
			rest /= values.Len()
		}
		list[i] = one
	}
	return list, nil
}

// combinations returns how many maps matrix makes, at most exprUnits. Values that are no lists count as empty.
func combinations(m map[string]any) int {
	n := 1
	for _, list := range m {
		k := size(list)
		if k == 0 {
			return 0
		}
		n = min(n, exprUnits/k+1) * k
	}
	return min(n, exprUnits)
}

func ranging(m *meter, p []any) error {
	n, _ := distance(p[0], p[1])
	return m.spend(unitsOfNumber * n)
}

func combining(m *meter, p []any) error {
	lists, _ := p[0].(map[string]any)
	n := combinations(lists)
	if err := m.spend(n); err != nil { // so that the product below cannot overflow
		return err
	}
	return m.spend(n * (unitsOfMap + unitsOfEntry*len(lists)))
}

const (
	unitsOfNumber = 10 // of one number in a list
	unitsOfMap    = 60
	unitsOfEntry  = 40 // of one entry of a map
)

// layout reports a call of format with a layout that has no part of a time, such as the letters of other languages.
func (s *refScan) layout(f *ast.IdentifierNode, args []ast.Node) {
	if f.Value != "format" || len(args) != 2 {
		return
	}
	text, ok := args[1].(*ast.StringNode)
	if !ok || time.Unix(0, 0).UTC().Format(text.Value) != text.Value || time.Unix(1e9, 1).UTC().Format(text.Value) != text.Value {
		return
	}
	s.problems = append(s.problems, problem{
		text.Value, fmt.Sprintf("format: %q has no part of a time", text.Value),
		`write the parts of 2006-01-02T15:04:05: format(run.logical_at, "2006-01-02")`,
	})
}
