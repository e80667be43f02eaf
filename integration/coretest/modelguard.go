package coretest

import (
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// barred reports whether a request could let a step start behind an approval that is not given.
func (m *Model) barred(step int, ct dagrun.Control) bool {
	for i := range m.steps {
		if !reserved(&m.steps[i]) || slices.Contains(ct.Decides, m.steps[i].Name) || m.given(i) {
			continue
		}
		behind := m.after(i)
		if behind[step] || ct.Verb == dagrun.VerbMark && step == i {
			return true
		}
		if m.waitedFor(i, behind) {
			continue
		}
		behind[i] = true
		reach := m.after(step)
		reach[step] = true
		for k := range reach {
			if behind[k] {
				return true
			}
		}
	}
	return false
}

// reserved reports whether a step is, or may become, an approval that names its approvers.
func reserved(s *dagrun.Step) bool {
	found := named(s)
	for _, rule := range s.OnError {
		for i := range rule.With {
			found = found || reserved(&rule.With[i])
		}
	}
	return found
}

// after returns the steps that come after a step. After init these are all steps.
func (m *Model) after(step int) map[int]bool {
	after := m.dependants(step)
	if m.steps[step].Name == dagrun.InitHandler {
		for i := range m.plain {
			after[i] = true
		}
	}
	return after
}

func (m *Model) given(step int) bool {
	class := result(m.group(step, ""))
	return class == S || class == K && m.steps[step].Name == dagrun.InitHandler
}

// waitedFor reports whether all steps behind an approval wait for its success, and only its approval can make it succeed.
func (m *Model) waitedFor(guard int, behind map[int]bool) bool {
	g := &m.steps[guard]
	c := g.ContinueOn
	if !named(g) || g.Foreach != nil || len(g.OnError) > 0 || c.Failed || c.Skipped || len(c.ExitCodes) > 0 {
		return false
	}
	if g.Name == dagrun.InitHandler {
		return true // no second path leads past it
	}
	for i := range behind {
		s := &m.steps[i]
		started := slices.ContainsFunc(s.Depends, func(e dagrun.Edge) bool { return e.State == dagrun.OnStarted })
		if s.Rule != dagrun.AllSuccess || s.ContinueOn.Skipped || started {
			return false
		}
	}
	return true
}

// named reports whether a step is an approval that names its approvers.
func named(s *dagrun.Step) bool {
	return s.Body == dagrun.BodyApproval && s.Approval != nil && len(s.Approval.Approvers) > 0
}
