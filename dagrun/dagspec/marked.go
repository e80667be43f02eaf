package dagspec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// MarkedOutputs returns the outputs of a step that is marked as succeeded, with the types that the step declares: a text becomes the
// number or the JSON that it holds. It returns an error for an unknown output, for a value that does not fit its type, and for a
// missing output that is not optional. A step that declares no outputs takes all, unchanged. Inputs of approvals are left to
// CheckInputs.
func (s *Step) MarkedOutputs(outputs dagrun.JSON) (dagrun.JSON, error) {
	if len(s.Outputs) == 0 || s.Action == "approval" {
		return outputs, nil
	}
	values := map[string]json.RawMessage{}
	if outputs != "" {
		if err := json.Unmarshal([]byte(outputs), &values); err != nil {
			return "", fmt.Errorf("the outputs are not a JSON object: %w", err)
		}
	}
	for _, name := range sortedKeys(values) {
		kind, known, ok := s.output(name)
		if !ok {
			return "", fmt.Errorf("the step has no output %s: it has %s", name, strings.Join(known, ", "))
		}
		value, err := markedValue(kind, values[name])
		if err != nil {
			return "", fmt.Errorf("output %s %w", name, err)
		}
		values[name] = value
	}
	for _, o := range s.Outputs {
		if v := values[o.Name]; !o.Optional && (v == nil || string(v) == "null") {
			why := ""
			if by := o.NeededBy(); by != "" {
				why = ", for " + by
			}
			return "", fmt.Errorf("the step needs the output %s%s: give it with the mark (--value %[1]s=…)", o.Name, why)
		}
	}
	text, err := compactJSON(values)
	return dagrun.JSON(text), err
}

// markedValue returns a value of an output with the type of the output, or the reason why it does not fit.
func markedValue(kind string, value json.RawMessage) (json.RawMessage, error) {
	given, err := decodeText(string(value))
	if err != nil {
		return nil, err
	}
	text, isText := given.(string)
	inText, err := decodeText(text)
	switch {
	case given == nil:
		return value, nil
	case kind == "string" && !isText:
		return nil, errors.New("must be a text, not " + showValue(given))
	case kind == "number" && isText && err == nil && isFinite(inText):
		return json.RawMessage(text), nil
	case kind == "number" && !isFinite(given):
		return nil, errors.New("must be a number, not " + showValue(given))
	case kind == "json" && isText && err == nil:
		return json.RawMessage(text), cmp.Or(CheckDepth(dagrun.JSON(text)), refuseUnstorable(inText))
	}
	return value, nil
}

// isFinite reports whether a decoded value is a finite number, and no text of one.
func isFinite(v any) bool {
	_, isText := v.(string)
	_, ok := number(v)
	return ok && !isText
}
