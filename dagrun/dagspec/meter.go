package dagspec

import (
	"errors"
	"reflect"
)

// exprUnits limits the cost of one evaluation to about 100 ms of one core. A unit is about 5 ns of work. The meter counts
// work and not time, so that every worker decides alike, regardless of its load.
const exprUnits = 20_000_000

const (
	evalUnits  = 300  // cost of every evaluation
	deepestSee = 1000 // depth of nested lists and maps that an evaluation may reach
)

// errCost means that an evaluation exceeds its limit.
var errCost = errors.New("costs more than 100 ms of one core: compute it in a step")

// meter counts the cost of one evaluation. It belongs to one goroutine.
type meter struct{ limit, spent int }

func newMeter(limit int) *meter { return &meter{limit: limit} }

// spend charges for work before it is done. It returns errCost if the work exceeds the limit.
func (m *meter) spend(units int) error {
	if units < 0 || units > m.limit-m.spent {
		m.spent = m.limit
		return errCost
	}
	m.spent += units
	return nil
}

// see charges units for every part of a value. It stops at the limit.
func (m *meter) see(v any, times int) error { return look{m, times, times / 4}.at(v, 0) }

// look charges for the parts of a value: times units for each part, and slope units more for each level of depth.
type look struct {
	*meter
	times, slope int
}

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

// part charges for one part and the bytes of its text.
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

// other charges for values that functions of the library return, such as lists of numbers and groups.
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

// isMany reports whether a value has parts.
func isMany(v any) bool {
	switch reflect.ValueOf(v).Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return true
	}
	return false
}
