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
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	paramPrefix = "param." // of the fields of params
	looseName   = "params" // the field of all params, where the definition cannot be read
)

// Kinds of fields.
const (
	textField   = "text"
	numberField = "number"
	linesField  = "lines"
	choiceField = "choice"
)

// formField is a field of a form with what its reader needs to fill it in. Its constraints are those that HTML means as we do; the
// server checks all of them.
type formField struct {
	Name, Label, Kind string
	About             string // beside the label: type, required
	Value             string
	Usual             string   // what holds where it is empty, shown in it
	Options           []string // of a choice, beside none
	Help, Problem     string
	Required          bool
	Kept              bool   // Usual is the value of the run that is made again
	Min, Max, Step    string // of a number
	Pattern           string
	MinLength         int
}

// paramField is the field of a param.
func paramField(p *dagspec.Param) *formField {
	f := &formField{Name: paramPrefix + p.Name, Label: p.Name, Kind: textField, About: p.Type, Help: p.Description, Required: p.Required && p.Default == nil}
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
			f.MinLength = *p.MinLength // HTML counts some characters twice, which makes it more lenient here, and too strict for a maximum
		}
	}
	if f.Kind == numberField {
		f.Min, f.Max = boundText(p.Minimum, p.Type), boundText(p.Maximum, p.Type)
	}
	return f
}

// boundText is a bound of a number. Steps of HTML count from the minimum, so that of an integer must be whole.
func boundText(bound *float64, kind string) string {
	if bound == nil || kind == "integer" && *bound != float64(int64(*bound)) {
		return ""
	}
	return strconv.FormatFloat(*bound, 'f', -1, 64)
}

// samePattern are expressions of one alternative that HTML, which always matches the whole text, reads as Go does.
var samePattern = regexp.MustCompile(`^\^((?:(?:\[\^?(?:[A-Za-z0-9_]-[A-Za-z0-9_]|[A-Za-z0-9_])+\]|\\[d.]|[A-Za-z0-9_ :,@-])(?:[+*?]|\{[0-9]+(?:,[0-9]*)?\})?)+)\$$`)

func htmlPattern(pattern string) string {
	m := samePattern.FindStringSubmatch(pattern)
	if m == nil {
		return ""
	}
	return m[1]
}

// valueText is a value as a field has it: that of a json param as JSON, others as the text they are.
func valueText(p *dagspec.Param, v any) string {
	if text, ok := v.(string); ok && p.Type != "json" {
		return text
	}
	return runview.CompactJSON(v)
}

// storedTexts are the params of a run as fields have them. Those without a value are left out.
func storedTexts(run *queue.Run, spec *dagspec.Spec) map[string]string {
	var values map[string]json.RawMessage
	if json.Unmarshal(run.Params, &values) != nil {
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

// plainNumber is a number that browsers keep as it is written.
var plainNumber = regexp.MustCompile(`^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$`)

// set fills the field in. A value that its kind of input would change has another kind.
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

// Empty is what a choice says of none.
func (f *formField) Empty() string {
	switch {
	case f.Kept:
		return "as in the run: " + runview.InlineText(f.Usual)
	case f.Usual == "":
		return "–"
	}
	return "default: " + runview.InlineText(f.Usual)
}

// ID is the field's name as an id of HTML.
func (f *formField) ID() string { return strings.ReplaceAll(f.Name, ".", "-") }

// Described are the ids of what is said of the field.
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

// readPairs reads lines of NAME=VALUE.
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

// pairLines writes lines of NAME=VALUE. The error says which values have several lines, and cannot be written so.
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

// sentText is a text without the line ends that browsers add to those of a form.
func sentText(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }
