package dagrun

import (
	"cmp"
	"fmt"
	"slices"
)

// defaultRetries limits "do: retry" if retry_policy sets no limit.
const defaultRetries = 3

// matchRule returns the index of the first on_error rule of a failed task that applies: a rule without a condition, or with a
// condition that holds. It returns -1 if no rule applies. It returns an error if the condition of an earlier rule cannot be
// evaluated.
func (r *Run) matchRule(t *task) (int, error) {
	for i := range t.step.OnError {
		cond := t.step.OnError[i].When
		if cond == nil {
			return i, nil
		}
		holds, err := cond.Eval(r.failing(t))
		if err != nil {
			return 0, err
		}
		if holds {
			return i, nil
		}
	}
	return -1, nil
}

// applyErrorRule carries out the on_error rule with the given index for a task that failed with res. It fails the task if a retry
// or a replacement is not allowed: because the run is ending, retries are used up or the failure is permanent.
func (r *Run) applyErrorRule(t *task, rule int, res Result) {
	do := t.step.OnError[rule].Do
	switch {
	case do == DoSkip:
		r.skip(t, "on_error: "+t.Reason)
	case do == DoContinue:
		r.failAs(t, true)
	case do == DoRetry && !r.stopping(t) && !res.Permanent && t.Retries < cmp.Or(t.step.Retry.Limit, defaultRetries):
		r.retry(t, res)
	case do >= DoReplace && !r.stopping(t):
		r.replace(t, rule)
	default:
		r.fail(t)
	}
}

// replace has the body that a rule asks, or the replacements of the rule, take the place of a failed task. Without a replacement, as
// for an empty list of items, the task fails.
func (r *Run) replace(t *task, rule int) {
	choices, err := r.choices(t, &t.step.OnError[rule])
	grew := Growth{Rule: rule, Count: t.step.OnError[rule].size(choices), Choices: choices, Stderr: t.stderr}
	switch {
	case err != nil:
		r.misconfigured(t, "on_error: "+err.Error())
	case grew.Count == 0:
		t.Reason += "; on_error has no items to replace it by"
		r.fail(t)
	case len(t.group.alts)+grew.Count > MaxReplacements:
		r.note(t, "replace", fmt.Sprintf("failed instead: more than %d replacements", MaxReplacements))
		r.fail(t)
	case r.total+grew.Count > MaxTasks:
		r.misconfigured(t, fmt.Sprintf("on_error: the run would have more than %d tasks", MaxTasks))
	default:
		r.replaceBy(t, grew)
	}
}

// replaceBy ends a task as replaced, makes the replacements that grew describes, and has them judged.
func (r *Run) replaceBy(t *task, grew Growth) {
	first := len(t.group.alts)
	grew.Generation, grew.ResetBy, grew.FirstAlt = r.rec.Generation, t.ResetBy, first+1
	t.Growth = &grew
	r.growAlts(t)
	r.to(t, TaskReplaced)
	for _, alt := range t.group.alts[first:] {
		r.enqueue(alt)
	}
}

// byData reports whether items decide how many replacements a rule makes.
func (rule *ErrorRule) byData() bool {
	return slices.ContainsFunc(rule.With, func(with Step) bool { return with.Foreach != nil })
}

// size returns how many tasks take the place of a failed one by the rule. choices is nil unless the rule goes by data.
func (rule *ErrorRule) size(choices []Choice) int {
	switch {
	case rule.Do == DoAsk:
		return 1
	case rule.byData():
		return len(choices)
	default:
		return len(rule.With)
	}
}

// choices returns the replacements of a failed task if its rule goes by data, and else nil: one for each item of a body with items,
// and one for each other body.
func (r *Run) choices(t *task, rule *ErrorRule) (list []Choice, err error) {
	if !rule.byData() {
		return nil, nil
	}
	for i := range rule.With {
		each := rule.With[i].Foreach
		if each == nil {
			list = append(list, Choice{With: i})
			continue
		}
		items, err := each.Items.Expand(r.failing(t))
		if err == nil && each.MaxItems > 0 && len(items) > each.MaxItems {
			err = fmt.Errorf("%d items are more than max_items %d", len(items), each.MaxItems)
		}
		if err != nil {
			return nil, fmt.Errorf("with[%d]: %w", i, err)
		}
		for _, item := range items {
			list = append(list, Choice{With: i, Value: item.Value})
		}
	}
	return list, nil
}

// planned ends a task that was asked which replacements are to start, and that succeeded with res. The choice is stored in the row
// that also ends the task, so that no crash starts a replacement twice. A choice that is no choice fails the task with kind output,
// and an empty one as the task failed that it is about.
func (r *Run) planned(t *task, res Result) {
	choices, err := t.plans.Chooser.Choose(res.Outputs)
	switch n := len(choices); {
	case err != nil:
	case len(t.group.alts)+n > MaxReplacements:
		err = fmt.Errorf("%d replacements are too many: at most %d, with those before", n, MaxReplacements)
	case r.total+n > MaxTasks:
		err = fmt.Errorf("with %d replacements the run would have more than %d tasks", n, MaxTasks)
	}
	switch failed := t.replaces; {
	case err != nil:
		r.bodyFailed(t, Result{Kind: KindOutput, HasExit: res.HasExit, ExitCode: res.ExitCode, Reason: "ask: " + err.Error()})
	case r.stopping(t):
		r.end(t, TaskCanceled, r.endingReason())
	case len(choices) == 0:
		t.take(Result{
			Kind: failed.Kind, ExitCode: failed.ExitCode, HasExit: failed.HasExit, Signal: failed.Signal,
			Reason: failed.Reason + "; the program of ask chose no replacement",
		})
		r.fail(t)
	default:
		t.take(res)
		t.Reason = fmt.Sprintf("chose %d", len(choices))
		r.replaceBy(t, Growth{Count: len(choices), Choices: choices})
	}
}

// failing returns what on_error sees of a task: its scope, with the failure of its attempt that has just ended.
func (r *Run) failing(t *task) *scope {
	s := r.scope(t)
	failed := t.failure(t.stderr, r.now)
	s.failure = &failed
	return s
}

// failure describes the attempt of a task that failed at the given time.
func (t *task) failure(stderr string, at Time) Failure {
	f := Failure{Kind: t.Kind, ExitCode: t.ExitCode, Signal: t.Signal, Attempt: t.Attempt, Message: t.Reason, Stderr: stderr, Chosen: t.chosen()}
	if t.AttemptAt != 0 {
		f.Duration = Duration(max(at-t.AttemptAt, 0))
	}
	return f
}

// chosen returns the items that replacements by data gave to the tasks which this task replaces, in the order of these replacements,
// and last its own.
func (t *task) chosen() (items []JSON) {
	if t.replaces != nil {
		items = t.replaces.chosen()
	}
	if t.choice != nil && t.choice.Value != "" {
		items = append(items, t.choice.Value)
	}
	return items
}

// growAlts makes a pending task for each replacement that the Growth of a task describes, and appends them to the group. A task for
// which a stored row was laid aside takes that row, see takeLeft.
func (r *Run) growAlts(t *task) {
	g, rule, failed := t.group, t.replacedBy(), t
	if t.plans != nil {
		failed = t.replaces
	}
	block := make([]task, t.Growth.Count)
	for i := range block {
		alt := &block[i]
		step, asks := rule.Ask, rule.Do == DoAsk && t.plans == nil
		switch choices := t.Growth.Choices; {
		case asks:
			alt.plans = rule
		case choices != nil:
			alt.choice = &choices[i]
			step = &rule.With[choices[i].With]
		default:
			step = &rule.With[i]
		}
		alt.replaces = failed
		g.alts = append(g.alts, alt)
		r.adopt(alt, t.node, g, TaskID{t.ID.Step, t.ID.Item, len(g.alts)}, step, t.Growth)
		alt.index = t.index
	}
}

// replacedBy returns the rule by which a replaced task was replaced. Its Growth must be set, and must fit the step.
func (t *task) replacedBy() *ErrorRule {
	if t.plans != nil {
		return t.plans
	}
	return &t.step.OnError[t.Growth.Rule]
}
