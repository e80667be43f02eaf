package dagspec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParamError is one problem with a param that a submitter gave.
type ParamError struct {
	Name string
	Msg  string
	Hint string
}

// Error formats the problem in one line.
func (e ParamError) Error() string {
	text := fmt.Sprintf("param %q: %s", e.Name, e.Msg)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// ParamErrors is the list of all problems with the params of a run.
type ParamErrors []ParamError

// Error formats one problem per line.
func (es ParamErrors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Params checks the params given for a run and adds the defaults. It reads a text as an integer, number or boolean if the param has
// that type. The result holds every declared param: integers as int64, numbers as float64, a param without a value as nil. If any
// param is wrong, unknown or missing, the result is nil and the error a ParamErrors with all problems. given is not changed.
func (s *Spec) Params(given map[string]any) (map[string]any, error) {
	var errs ParamErrors
	known := map[string]bool{}
	out := make(map[string]any, len(s.ParamDefs))
	for i := range s.ParamDefs {
		p := &s.ParamDefs[i]
		known[p.Name] = true
		v, ok := given[p.Name]
		if !ok || v == nil {
			v = p.Default
		}
		typed, err := p.accept(v)
		if err != nil {
			errs = append(errs, ParamError{p.Name, err.Error(), p.Description})
		}
		out[p.Name] = typed
	}
	for _, name := range sortedKeys(given) {
		if !known[name] {
			errs = append(errs, ParamError{name, "unknown", knownHint(name, sortedKeys(known), "the DAG has no such param")})
		}
	}
	errs = append(errs, s.misfits(out, func(name string) bool {
		return out[name] == nil || slices.ContainsFunc(errs, func(e ParamError) bool { return e.Name == name })
	})...)
	if len(errs) > 0 {
		return nil, errs
	}
	return out, nil
}

// ParamsFromText does the same as Params for texts from a command line. It parses the text of a json param as JSON. The first such
// text that is no JSON is reported alone.
func (s *Spec) ParamsFromText(given map[string]string) (map[string]any, error) {
	typed := make(map[string]any, len(given))
	for name, text := range given {
		typed[name] = text
	}
	for i := range s.ParamDefs {
		p := &s.ParamDefs[i]
		text, ok := given[p.Name]
		if !ok || p.Type != "json" {
			continue
		}
		v, err := decodeText(text)
		if err != nil {
			return nil, ParamErrors{{p.Name, "this is not JSON: " + strconv.Quote(text), `quote a text: '"text"'`}}
		}
		typed[p.Name] = v
	}
	return s.Params(typed)
}

// decodeText parses a text as one JSON value. Integers become int64.
func decodeText(text string) (any, error) {
	if !json.Valid([]byte(text)) {
		return nil, errors.New("not JSON")
	}
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return exact(v), nil
}

// accept converts a value to the type of the param and checks it against the param's limits. The error says why the param cannot
// have the value. A missing value, which is nil, stays nil unless the param is required.
func (p *Param) accept(v any) (any, error) {
	if v == nil {
		if p.Required {
			return nil, errors.New("is required")
		}
		return nil, nil
	}
	typed, err := p.coerce(v)
	if err != nil {
		return nil, err
	}
	if err := refuseUnstorable(typed); err != nil {
		return nil, err
	}
	return typed, p.bounds(typed)
}

// coerce converts a value to the type of the param, or returns an error. It checks no limits.
func (p *Param) coerce(v any) (any, error) {
	switch p.Type {
	case "string":
		if s, ok := v.(string); ok {
			return s, nil
		}
	case "integer":
		if i, ok := integer(v); ok {
			return i, nil
		}
	case "number":
		if f, ok := number(v); ok {
			return f, nil
		}
	case "boolean":
		switch v {
		case true, "true":
			return true, nil
		case false, "false":
			return false, nil
		}
	default:
		return exact(v), nil
	}
	return nil, fmt.Errorf("must be %s, not %s", paramNoun[p.Type], showValue(v))
}

var paramNoun = map[string]string{"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}

// integer returns a whole number, or a text of digits with an optional sign, as an integer. It returns false for any other value,
// and for a float64 too large to be exact.
func integer(v any) (int64, bool) {
	switch x := v.(type) {
	case int:
		return int64(x), true
	case int64:
		return x, true
	case float64:
		return int64(x), x == math.Trunc(x) && math.Abs(x) < 1<<53
	case json.Number:
		return integer(x.String())
	case string:
		i, err := strconv.ParseInt(x, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// number returns a number, or a text with a number, as a float64. It returns false for any other value, infinities included.
func number(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, !math.IsNaN(x) && !math.IsInf(x, 0)
	case json.Number:
		return number(x.String())
	case string:
		f, err := strconv.ParseFloat(x, 64)
		return f, err == nil && strings.Trim(x, "+-.0123456789eE") == ""
	}
	i, ok := integer(v)
	return float64(i), ok
}

var errNotFinite = errors.New("a number is too large: write it as a text")

// refuseUnstorable returns an error if a value, at any depth, has a text with NUL or invalid UTF-8, which Postgres cannot store, or
// a number that is not finite.
func refuseUnstorable(v any) error {
	switch x := v.(type) {
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return errNotFinite
		}
	case string:
		if strings.ContainsRune(x, 0) || !utf8.ValidString(x) {
			return errors.New("must be UTF-8 without NUL")
		}
	case []any:
		for _, item := range x {
			if err := refuseUnstorable(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, item := range x {
			if err := cmp.Or(refuseUnstorable(k), refuseUnstorable(item)); err != nil {
				return err
			}
		}
	}
	return nil
}

// bounds returns an error if a value breaks a limit of the param: enum, minimum, maximum, length or pattern. The value must have
// the type of the param.
func (p *Param) bounds(v any) error {
	if len(p.Enum) > 0 && !p.listed(v) {
		return fmt.Errorf("must be %s, not %s", oneOf(p.shownEnum()), showValue(v))
	}
	if f, ok := number(v); ok && (p.Type == "integer" || p.Type == "number") {
		if p.Minimum != nil && f < *p.Minimum {
			return fmt.Errorf("must be %v or more, not %v", *p.Minimum, v)
		}
		if p.Maximum != nil && f > *p.Maximum {
			return fmt.Errorf("must be %v or less, not %v", *p.Maximum, v)
		}
	}
	text, ok := v.(string)
	if !ok || p.Type != "string" {
		return nil
	}
	n := utf8.RuneCountInString(text)
	if p.MinLength != nil && n < *p.MinLength {
		return fmt.Errorf("must have %d characters or more, not %d", *p.MinLength, n)
	}
	if p.MaxLength != nil && n > *p.MaxLength {
		return fmt.Errorf("must have %d characters or less, not %d", *p.MaxLength, n)
	}
	if p.Pattern != "" {
		if re, err := regexp.Compile(p.Pattern); err != nil || !re.MatchString(text) {
			return fmt.Errorf("must match %s, not %s", p.Pattern, showValue(v))
		}
	}
	return nil
}

// listed reports whether a value is in the param's enum.
func (p *Param) listed(v any) bool {
	for _, e := range p.Enum {
		if typed, err := p.coerce(e); err == nil && reflect.DeepEqual(typed, v) {
			return true
		}
	}
	return false
}

func (p *Param) shownEnum() []string {
	list := make([]string, len(p.Enum))
	for i, e := range p.Enum {
		list[i] = showValue(e)
	}
	return list
}

// showValue formats a value as JSON for a message, cut after 60 characters.
func showValue(v any) string {
	const runesMax = 60
	text, _ := compactJSON(v) // an error gives no text
	return shortened(string(text), runesMax)
}
