package dagspec

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// inputs returns the inputs of an approval, declared like params: a name alone is a text. For any other step there are none.
func (s *Step) inputs() []Param {
	list, _ := s.With["inputs"].([]any)
	if s.Action != "approval" || len(list) == 0 {
		return nil
	}
	inputs := make([]Param, 0, len(list))
	for _, item := range list {
		p := Param{}
		p.preset()
		if name, ok := item.(string); ok {
			p.Name = name
		} else if err := convert(item, &p); err != nil {
			continue // not reached: the schema has accepted it
		}
		inputs = append(inputs, p)
	}
	return inputs
}

// convert decodes a value of a file into a struct, with integers kept exact.
func convert(from any, p *Param) error {
	text, err := compactJSON(from)
	if err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	err = d.Decode(p)
	p.Default = exact(p.Default)
	for i := range p.Enum {
		p.Enum[i] = exact(p.Enum[i])
	}
	return err
}

// inputKind returns the type of the output that an input becomes. An input that may be left out is null then, so its type is not
// known before the run.
func inputKind(p *Param) string {
	if !p.Required && p.Default == nil {
		return "json"
	}
	return p.Type
}

// CheckInputs returns why an approval cannot have these outputs, or nil; for a step that is no approval always nil. The database
// has checked them before, except their patterns. It has also converted texts and filled in defaults.
func (s *Step) CheckInputs(outputs dagrun.JSON) error {
	inputs := s.inputs()
	if len(inputs) == 0 || outputs == "" {
		return nil
	}
	given, err := decodeJSON(outputs)
	if err != nil {
		return err
	}
	values, _ := given.(map[string]any)
	for i := range inputs {
		p := &inputs[i]
		if v := values[p.Name]; v != nil {
			if _, err := p.accept(v); err != nil {
				return fmt.Errorf("input %s %w", p.Name, err)
			}
		}
	}
	return nil
}
