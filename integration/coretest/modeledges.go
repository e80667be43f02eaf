package coretest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Class is what the end of a task means to its dependants: 0 while the task has not ended.
type Class byte

// The classes of the language: succeeded, failed, skipped, canceled.
const (
	S Class = 'S'
	F Class = 'F'
	K Class = 'K'
	C Class = 'C'
)

// class returns the class of an ended task. A replaced task has none, since its replacements decide.
func (c *cell) class() Class {
	switch c.State {
	case dagrun.TaskSucceeded:
		return S
	case dagrun.TaskFailed:
		if c.Tolerated {
			return S
		}
		return F
	case dagrun.TaskUpstreamFailed:
		return F
	case dagrun.TaskSkipped:
		if c.step.ContinueOn.Skipped {
			return S
		}
		return K
	case dagrun.TaskCanceled:
		return C
	}
	return 0
}

// group returns a task and its replacements.
func (m *Model) group(step int, item string) []*cell {
	return slices.DeleteFunc(m.sorted(), func(c *cell) bool { return c.ID.Step != step || c.ID.Item != item })
}

// result returns the class of a group, 0 while one of its tasks is open.
func result(group []*cell) Class {
	seen := map[Class]bool{}
	for _, c := range group {
		if !c.State.Terminal() {
			return 0
		}
		seen[c.class()] = true
	}
	for _, worst := range []Class{F, C, S} {
		if seen[worst] {
			return worst
		}
	}
	return K
}

// allSkipped reports whether a settled group counts as skipped.
func allSkipped(group []*cell) bool {
	for _, c := range group {
		if c.State != dagrun.TaskSkipped && c.State != dagrun.TaskReplaced {
			return false
		}
	}
	return true
}

// settleNodes ends all foreach steps with items that have all ended. This belongs to the event that ends the last item.
func (m *Model) settleNodes() {
	for _, c := range m.sorted() {
		m.settleNode(c)
	}
}

// settleNode ends one foreach step if its items have all ended.
func (m *Model) settleNode(node *cell) bool {
	if !node.grown() || node.State != dagrun.TaskRunning {
		return false
	}
	worst, skipped := K, true
	for _, it := range node.Growth.Items {
		group := m.group(node.ID.Step, it.Key)
		switch r := result(group); {
		case r == 0:
			return false
		case r == F || worst == F:
			worst = F
		case r == C || worst == C:
			worst = C
		case r == S:
			worst = S
		}
		skipped = skipped && allSkipped(group)
	}
	switch {
	case worst == F:
		m.end(node, dagrun.TaskFailed, "")
	case worst == C:
		m.end(node, dagrun.TaskCanceled, "")
	case skipped:
		m.end(node, dagrun.TaskSkipped, "")
	default:
		m.end(node, dagrun.TaskSucceeded, "")
	}
	return true
}

// contribution returns the class that an edge passes on to its child now, 0 for none yet.
func (m *Model) contribution(e dagrun.Edge) Class {
	group := m.group(m.stepIndex(e.Step), "")
	switch {
	case e.State == dagrun.OnStarted && slices.ContainsFunc(group, func(c *cell) bool { return c.StartedAt != 0 }):
		return S
	case e.State == dagrun.OnFinished && finishing(group):
		return S
	}
	return result(group)
}

// finishing reports whether only a publish is left in a group, and no task in it went wrong.
func finishing(group []*cell) bool {
	some := false
	for _, c := range group {
		if c.State == dagrun.TaskFinishing {
			some = true
			continue
		}
		if !c.State.Terminal() || c.class() == F || c.class() == C {
			return false
		}
	}
	return some
}

func (m *Model) stepIndex(name string) int {
	return slices.IndexFunc(m.steps, func(s dagrun.Step) bool { return s.Name == name })
}

// Judgement is the answer of a trigger rule.
type Judgement int

// What a rule can answer.
const (
	Undecided Judgement = iota
	Runs
	Skips
	Fails // the task ends as upstream_failed
)

// Judge applies a trigger rule to the classes of the parents; 0 stands for a parent that contributes nothing yet.
func Judge(rule dagrun.Rule, parents []Class) Judgement {
	n := map[Class]int{}
	for _, p := range parents {
		n[p]++
	}
	all, open := len(parents), n[0]
	if all == 0 {
		return Runs
	}
	switch {
	case rule == dagrun.OneSuccess && n[S] > 0,
		rule == dagrun.OneFailed && n[F] > 0,
		rule == dagrun.OneDone && n[S]+n[F] > 0:
		return Runs
	case open > 0:
		return Undecided
	}
	yes := map[dagrun.Rule]bool{
		dagrun.AllSuccess:              n[S] == all,
		dagrun.AllDone:                 true,
		dagrun.AllFailed:               n[F] == all,
		dagrun.NoneFailed:              n[F]+n[C] == 0,
		dagrun.NoneFailedMinOneSuccess: n[F]+n[C] == 0 && n[S] > 0,
		dagrun.NoneSkipped:             n[K] == 0,
	}
	switch {
	case yes[rule]:
		return Runs
	case n[F] > 0:
		return Fails
	}
	return Skips
}

// judge applies the trigger rule of a cell to its edges. Items and replacements have no edges.
func (m *Model) judge(c *cell) (Judgement, string) {
	if c.ID.Item != "" || c.ID.Alt > 0 || m.isHandler(c) {
		return Runs, ""
	}
	var classes []Class
	byClass := map[Class][]string{}
	for _, e := range c.step.Depends {
		k := m.contribution(e)
		classes = append(classes, k)
		byClass[k] = append(byClass[k], e.Step)
	}
	j := Judge(c.step.Rule, classes)
	if j == Fails {
		return j, fmt.Sprintf("upstream failed: %s", strings.Join(byClass[F], ", "))
	}
	return j, ""
}
