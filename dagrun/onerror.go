package dagrun

import (
	"cmp"
	"fmt"
)

// defaultRetries limits "do: retry" if retry_policy sets no limit.
const defaultRetries = 3

// matchRule returns the index of the first on_error rule with a condition that holds, or -1.
func (r *Run) matchRule(t *task) (int, error) {
	for i := range t.step.OnError {
		cond := t.step.OnError[i].When
		if cond == nil {
			return i, nil
		}
		s := r.scope(t)
		s.failure = &Failure{Kind: t.Kind, ExitCode: t.ExitCode, Signal: t.Signal, Attempt: t.Attempt}
		holds, err := cond.Eval(s)
		if err != nil {
			return 0, err
		}
		if holds {
			return i, nil
		}
	}
	return -1, nil
}

// obey carries out an on_error rule.
func (r *Run) obey(t *task, rule int, res Result) {
	do := t.step.OnError[rule].Do
	switch {
	case do == DoSkip:
		r.skip(t, "on_error: "+t.Reason)
	case do == DoContinue:
		r.failAs(t, true)
	case do == DoRetry && !r.stopping(t) && !res.Permanent && t.Retries < cmp.Or(t.step.Retry.Limit, defaultRetries):
		r.retry(t, res)
	case do == DoReplace && !r.stopping(t):
		r.replace(t, rule)
	default:
		r.fail(t)
	}
}

// replace replaces a failed task by the bodies that an on_error rule names.
func (r *Run) replace(t *task, rule int) {
	with, g := t.step.OnError[rule].With, t.group
	if len(g.alts)+len(with) > MaxReplacements {
		r.note(t, "replace", fmt.Sprintf("failed instead: more than %d replacements", MaxReplacements))
		r.fail(t)
		return
	}
	if r.total+len(with) > MaxTasks {
		r.misconfigured(t, fmt.Sprintf("on_error: the run would have more than %d tasks", MaxTasks))
		return
	}
	t.Growth = &Growth{Generation: r.rec.Generation, Rule: rule, FirstAlt: len(g.alts) + 1, Count: len(with)}
	first := len(g.alts)
	r.growAlts(t)
	r.to(t, TaskReplaced)
	for _, alt := range g.alts[first:] {
		r.enqueue(alt)
	}
}

// growAlts makes the replacements that the Growth of a task describes.
func (r *Run) growAlts(t *task) {
	with, g := t.step.OnError[t.Growth.Rule].With, t.group
	block := make([]task, len(with))
	for i := range with {
		alt := &block[i]
		g.alts = append(g.alts, alt)
		r.adopt(alt, t.node, g, TaskID{t.ID.Step, t.ID.Item, len(g.alts)}, &with[i])
		alt.index = t.index
	}
}
