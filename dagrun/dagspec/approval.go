package dagspec

import (
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Approval returns the question that an approval step asks, with the references of its prompt as they are written. It
// returns nil for any other step.
func (s *Step) Approval() *Approval {
	if s.Action != "approval" {
		return nil
	}
	a := &Approval{Approvers: stringList(s.With["approvers"])}
	a.Prompt, _ = s.With["prompt"].(string)
	required := stringList(s.With["required"])
	for _, name := range stringList(s.With["inputs"]) {
		a.Inputs = append(a.Inputs, dagrun.Input{Name: name, Required: slices.Contains(required, name)})
	}
	return a
}

// Approval is the question that an approval step asks of people.
type Approval struct {
	Prompt    string
	Inputs    []dagrun.Input
	Approvers []string // empty: every user with the right to control the run
}

// approval compiles the question of an approval step. It returns nil for any other step.
func (s *Step) approval(n *names) *dagrun.Approval {
	a := s.Approval()
	if a == nil {
		return nil
	}
	out := &dagrun.Approval{Inputs: a.Inputs, Approvers: a.Approvers}
	if a.Prompt != "" {
		out.Prompt = &prompt{text: a.Prompt, names: n}
	}
	return out
}

// prompt is a text with references, which are filled in when the approval begins to wait.
type prompt struct {
	text  string
	names *names
}

// Text returns the prompt with its references filled in.
func (p *prompt) Text(scope dagrun.Scope) (string, error) {
	v, err := newView(scope, p.names)
	if err != nil {
		return "", err
	}
	return v.text("with.prompt", p.text)
}
