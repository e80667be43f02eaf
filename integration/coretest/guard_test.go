package coretest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// TestGuards_NobodyLeadsPastAnApproval plays histories in which no user that marks or retries may decide an approval. As
// long as an approval has not succeeded, no step behind it may be under way, provided that all steps behind it wait for
// the success of their parents.
func TestGuards_NobodyLeadsPastAnApproval(t *testing.T) {
	t.Parallel()
	seen := 0
	for seed := range 6 * metamorphicSeeds() {
		c := Seeded(seed)
		spec, opts := RandomSpec(c, 6)
		guarded(&spec)
		p, err := NewPlay(c, spec, opts)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		p.strangers = true
		err = p.each(func() error {
			n, err := p.nothingBehindApprovals()
			seen += n
			return err
		})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, p.Story())
		}
	}
	if seen < 300 {
		t.Errorf("only %d times something stood behind an approval", seen)
	}
}

// guarded makes every third step an approval, and all steps wait for their parents' success.
func guarded(spec *dagrun.Spec) {
	for i := range spec.Steps {
		s := &spec.Steps[i]
		s.Rule, s.ContinueOn.Skipped = dagrun.AllSuccess, false
		for k := range s.Depends {
			s.Depends[k].State %= dagrun.OnStarted
		}
		if i%3 == 0 && s.Foreach == nil {
			*s = dagrun.Step{Name: s.Name, Depends: s.Depends, When: s.When, Body: dagrun.BodyApproval, Approval: &dagrun.Approval{Approvers: []string{"boss"}}, Retry: s.Retry}
		}
	}
}

func (p *Play) nothingBehindApprovals() (seen int, err error) {
	m := p.Model
	for g := range m.steps {
		if !reserved(&m.steps[g]) || g >= m.plain || m.given(g) {
			continue
		}
		behind := m.after(g)
		if !m.waitedFor(g, behind) {
			continue
		}
		seen += len(behind)
		under := []dagrun.State{dagrun.TaskRunning, dagrun.TaskFinishing, dagrun.TaskWaiting, dagrun.TaskRetrying}
		for t := range p.Core.Tasks() {
			if behind[t.ID.Step] && slices.Contains(under, t.State) {
				return seen, fmt.Errorf("%s is %s behind approval %s", p.Graph.TaskName(t.ID), t.State, m.steps[g].Name)
			}
		}
	}
	return seen, nil
}
