package dagspec

import (
	"math/bits"
	"strings"
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
	"date":     func(m *meter, p []any) error { return m.spend(500 + 4*textSize(p...)) },
	"timezone": func(m *meter, p []any) error { return m.spend(10_000 + textSize(p...)) },

	"max": listing, "min": listing, "mean": listing, "sum": listing, "flatten": listing, "fromPairs": listing,
	"reverse": shallow, "concat": shallow, "count": shallow, "get": hashing,
	"keys": mapSorting, "values": mapSorting, "toPairs": mapSorting,
}

// textSize returns the total length in bytes of all texts among some values.
func textSize(p ...any) int {
	n := 0
	for _, v := range p {
		if s, ok := v.(string); ok {
			n += len(s)
		}
	}
	return n
}

func seeAll(m *meter, p []any, times int) error {
	for _, v := range p {
		if err := m.see(v, times); err != nil {
			return err
		}
	}
	return nil
}

// made charges for a text that an evaluation creates. This limits the memory of the evaluation too.
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

// comparison charges for the shorter of two texts, because an operator reads no further.
func comparison(m *meter, p []any) error {
	if len(p) < 2 || !isText(p[0]) || !isText(p[1]) {
		return nil
	}
	return m.spend(min(len(p[0].(string)), len(p[1].(string))) / 16) //nolint:forcetypeassert // isText looked
}

// equality charges for both operands. Lists and maps of different lengths are free, because the operator compares lengths
// first.
func equality(m *meter, p []any) error {
	switch {
	case isText(p[0]):
		return comparison(m, p)
	case isMany(p[0]) && isMany(p[1]) && size(p[0]) == size(p[1]):
		return m.see(p[0], 20)
	}
	return nil
}

func membership(m *meter, p []any) error {
	if _, ok := p[1].(map[string]any); ok {
		return hashing(m, p[:1])
	}
	if isMany(p[0]) {
		return m.see(p[1], 20)
	}
	return m.spend(size(p[1]) * (10 + textSize(p[0])/16))
}

// matching charges for the worst case: each byte of the text meets each instruction of the pattern.
func matching(m *meter, text any, program int) error {
	return m.spend(10 + (textSize(text)+1)*program)
}

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

// distinct charges more for lists and maps, because uniq compares them with each other. It finds any other value by a
// lookup.
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
