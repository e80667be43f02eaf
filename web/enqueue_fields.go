package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

const (
	paramPrefix = "param." // prefix of the names of param fields
	looseName   = "params" // name of the field for all params, if the login cannot read their types
)

// Kinds of fields.
const (
	textField   = "text"
	numberField = "number"
	linesField  = "lines"
	choiceField = "choice"
)

// formField is a field of a form. It has only constraints that HTML checks exactly as Oarlock does; the server checks the others.
type formField struct {
	Name, Label, Kind string
	About             string // shown beside the label: type, required
	Value             string
	// Usual is the value that holds while the field is empty. The field shows it as a placeholder.
	Usual          string
	Options        []string // of a choice, besides the empty one
	Help, Problem  string
	Required       bool
	Kept           bool   // Usual is the value of the run that is run again
	Min, Max, Step string // of a number field
	Pattern        string
	MinLength      int
}

// paramField makes an empty field for a param, or an input of an approval, under a name that begins with prefix: with its kind,
// default and choices, and the bounds that HTML checks as Oarlock does.
func paramField(p *dagspec.Param, prefix string) *formField {
	f := &formField{Name: prefix + p.Name, Label: p.Name, Kind: textField, About: p.Type, Help: p.Description, Required: p.Required && p.Default == nil}
	if p.Default != nil {
		f.Usual = valueText(p, p.Default)
	}
	switch {
	case len(p.Enum) > 0:
		f.Kind = choiceField
		for _, v := range p.Enum {
			f.Options = append(f.Options, valueText(p, v))
		}
	case p.Type == "boolean":
		f.Kind, f.Options = choiceField, []string{"true", "false"}
	case p.Type == "integer":
		f.Kind, f.Step = numberField, "1"
	case p.Type == "number":
		f.Kind, f.Step = numberField, "any"
	case p.Type == "json":
		f.Kind = linesField
	default:
		f.Pattern = htmlPattern(p.Pattern)
		if p.MinLength != nil {
			// HTML counts some characters twice. That makes a minimum more lenient than ours; a maximum would be too strict.
			f.MinLength = *p.MinLength
		}
	}
	if f.Kind == numberField {
		f.Min, f.Max = boundText(p.Minimum, p.Type), boundText(p.Maximum, p.Type)
	}
	return f
}

// boundText returns a bound of a number field as text; "" for nil. It returns "" also for a bound of an integer field that is not
// whole, because HTML counts the steps from the minimum.
func boundText(bound *float64, kind string) string {
	if bound == nil || kind == "integer" && *bound != float64(int64(*bound)) {
		return ""
	}
	return strconv.FormatFloat(*bound, 'f', -1, 64)
}

// samePattern matches expressions that mean the same in HTML as in Go: one alternative, anchored at both ends, since HTML always
// matches the whole text.
var samePattern = regexp.MustCompile(`^\^((?:(?:\[\^?(?:[A-Za-z0-9_]-[A-Za-z0-9_]|[A-Za-z0-9_])+\]|\\[d.]|[A-Za-z0-9_ :,@-])(?:[+*?]|\{[0-9]+(?:,[0-9]*)?\})?)+)\$$`)

// htmlPattern returns a pattern as the attribute of an HTML field, without its anchors. It returns "" for a pattern that may mean
// something else in HTML.
func htmlPattern(pattern string) string {
	m := samePattern.FindStringSubmatch(pattern)
	if m == nil {
		return ""
	}
	return m[1]
}

// valueText returns a value of a param as the text of its field. A string is its own text, unless the type of the param is json;
// all other values are JSON.
func valueText(p *dagspec.Param, v any) string {
	if text, ok := v.(string); ok && p.Type != "json" {
		return text
	}
	return runview.CompactJSON(v)
}

// paramTexts returns the params in a JSON object as texts by name, as fields and the command line take them. It leaves out params
// that are null. A string is its own text, unless spec gives the param the type json; all other values are JSON. spec may be nil.
func paramTexts(params json.RawMessage, spec *dagspec.Spec) map[string]string {
	var values map[string]json.RawMessage
	if json.Unmarshal(params, &values) != nil {
		return nil
	}
	asJSON := map[string]bool{}
	if spec != nil {
		for i := range spec.ParamDefs {
			asJSON[spec.ParamDefs[i].Name] = spec.ParamDefs[i].Type == "json"
		}
	}
	texts := map[string]string{}
	for name, raw := range values {
		var text string
		switch {
		case string(raw) == "null":
			continue
		case asJSON[name] || json.Unmarshal(raw, &text) != nil:
			text = string(raw)
		}
		texts[name] = text
	}
	return texts
}

// plainNumber matches numbers that browsers do not rewrite in a number field.
var plainNumber = regexp.MustCompile(`^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$`)

// set gives the field the value that it shows. Where an HTML input would change the value, the field gets another kind: a number
// field with a text such as 1e3 becomes a text field, and a text field with several lines a field of lines. A choice gets a value
// that it does not offer as one more option.
func (f *formField) set(value string) {
	f.Value = value
	switch {
	case f.Kind == numberField && value != "" && !plainNumber.MatchString(value):
		f.Kind = textField
	case f.Kind == textField && strings.ContainsAny(value+f.Usual, "\r\n"):
		f.Kind = linesField
	case f.Kind == choiceField && value != "" && !slices.Contains(f.Options, value):
		f.Options = append(slices.Clip(f.Options), value)
	}
}

// Empty returns the label of a choice's empty option. It names the value that holds if the user picks that option.
func (f *formField) Empty() string {
	switch {
	case f.Kept:
		return "as in the run: " + runview.InlineText(f.Usual)
	case f.Usual == "":
		return "–"
	}
	return "default: " + runview.InlineText(f.Usual)
}

// ID returns the field's name as an HTML id.
func (f *formField) ID() string { return strings.ReplaceAll(f.Name, ".", "-") }

// Described returns the ids of the elements with the field's help and problem, for aria-describedby.
func (f *formField) Described() string {
	var ids []string
	if f.Problem != "" {
		ids = append(ids, f.ID()+"-problem")
	}
	if f.Help != "" {
		ids = append(ids, f.ID()+"-help")
	}
	return strings.Join(ids, " ")
}

// readPairs parses lines of NAME=VALUE, and skips empty lines. If a line is not NAME=VALUE, or a name occurs twice, it returns an
// error for the user and no pairs.
func readPairs(text string) (pairs map[string]string, err error) {
	pairs = map[string]string{}
	for line := range strings.SplitSeq(sentText(text), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not NAME=VALUE", line)
		}
		if _, twice := pairs[name]; twice {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		pairs[name] = value
	}
	return pairs, nil
}

// pairLines returns pairs as lines of NAME=VALUE, sorted by name. It leaves out values of several lines. Its error then names them,
// and lines has the other pairs.
func pairLines(pairs map[string]string) (lines string, err error) {
	var all, broken []string
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		if strings.ContainsAny(pairs[name], "\r\n") {
			broken = append(broken, name)
			continue
		}
		all = append(all, name+"="+pairs[name])
	}
	if len(broken) > 0 {
		err = errors.New("a value of several lines cannot be given here: " + strings.Join(broken, ", "))
	}
	return strings.Join(all, "\n"), err
}

// sentText replaces the CR LF line ends that browsers send by LF.
func sentText(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }
