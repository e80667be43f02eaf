package dagrun

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

func checkSize(spec Spec) error {
	depends := 0
	for i := range spec.Steps {
		depends += len(spec.Steps[i].Depends)
	}
	return errors.Join(
		unless(len(spec.Steps) > 0, "there are no steps: give at least one"),
		unless(len(spec.Steps)+len(spec.Handlers) <= MaxTasks, "%d steps are too many: at most %d", len(spec.Steps), MaxTasks),
		unless(depends <= MaxDepends, "%d dependencies are too many: at most %d", depends, MaxDepends),
		unless(spec.Timeout >= 0, "the timeout is negative"),
		unless(spec.MaxActive >= 0, "max_active_steps is negative"),
	)
}

func (g *Graph) checkSteps() error {
	var errs []error
	listed := make([]int, g.plain) // by parent: 1 + the last step that lists it, 0 = none
	for i := range g.plain {
		s := g.Step(i)
		err := errors.Join(g.checkDepends(i, listed), checkRule(s), checkForeach(s), checkBody(s))
		if err != nil {
			errs = append(errs, prefix(fmt.Sprintf("step %q", s.Name), err))
		}
	}
	return errors.Join(errs...)
}

func (g *Graph) checkHandlers() error {
	var errs []error
	for i := g.plain; i < g.Len(); i++ {
		s := g.Step(i)
		plain := len(s.Depends) == 0 && s.Foreach == nil && s.Rule == AllSuccess && !s.WhenPerItem
		err := errors.Join(unless(plain, "a handler has no depends, foreach or trigger rule"), checkBody(s))
		if err != nil {
			errs = append(errs, prefix(fmt.Sprintf("handler %q", s.Name), err))
		}
	}
	return errors.Join(errs...)
}

func (g *Graph) checkDepends(i int, listed []int) error {
	var errs []error
	for _, e := range g.spec.Steps[i].Depends {
		p, ok := g.index[e.Step]
		switch {
		case !ok || p >= g.plain:
			errs = append(errs, fmt.Errorf("depends on %q, which is no step", e.Step))
		case listed[p] == i+1:
			errs = append(errs, fmt.Errorf("depends on %q twice", e.Step))
		default:
			listed[p] = i + 1
		}
		if e.State > OnStarted {
			errs = append(errs, fmt.Errorf("depends on %q in state %s", e.Step, e.State))
		}
	}
	return errors.Join(errs...)
}

func checkRule(s *Step) error {
	if len(s.Depends) > 0 {
		return unless(s.Rule <= NoneSkipped, "trigger rule %s", s.Rule)
	}
	return unless(s.Rule == AllSuccess || s.Rule == AllDone, "trigger rule %s needs dependencies", s.Rule)
}

func checkForeach(s *Step) error {
	if s.Foreach == nil {
		return unless(!s.WhenPerItem, "a condition per item needs a foreach")
	}
	return errors.Join(
		unless(s.Foreach.Items != nil, "foreach has no items"),
		unless(s.Foreach.MaxConcurrent >= 0, "foreach.max_concurrent is negative"),
		unless(s.Foreach.MaxItems >= 0, "foreach.max_items is negative"),
		unless(s.Result == nil, "foreach and a precomputed result exclude each other"),
	)
}

// checkBody checks the fields that steps, handlers and replacements have in common.
func checkBody(s *Step) error {
	errs := []error{
		unless(s.Body <= BodyChild, "body %s", s.Body),
		unless(s.OnLost <= LostFail, "on_lost %s", s.OnLost),
		unless(s.Slots >= 0, "slots is negative"),
		unless(s.Slots == 0 || s.Body == BodyTask, "a %s takes no slots", s.Body),
		unless(s.Approval == nil || s.Body == BodyApproval, "a %s asks for no approval", s.Body),
		unless(s.Timeout >= 0 && s.PublishTimeout >= 0, "the timeout is negative"),
		unless(s.Publish || s.PublishPool == "", "a pool for a publish, but no publish"),
		unless(s.Result == nil || s.Result.SnoozeUntil == 0, "a precomputed result cannot snooze"),
		unless(!s.Reserved() || s.Result == nil && s.CacheKey == nil, "an approval that names approvers has neither a precomputed result nor a cache"),
		checkRetry(s.Retry),
	}
	for i := range s.OnError {
		if err := checkErrorRule(&s.OnError[i]); err != nil {
			errs = append(errs, prefix(fmt.Sprintf("on_error[%d]", i), err))
		}
	}
	return errors.Join(errs...)
}

func checkRetry(p RetryPolicy) error {
	return errors.Join(
		unless(p.Limit >= 0, "retry_policy.limit is negative"),
		unless(p.Interval >= 0 && p.MaxInterval >= 0, "retry_policy has a negative interval"),
		unless(p.Backoff >= 0 && p.Backoff <= 1000, "retry_policy.backoff must be from 0 to 1000"),
		unless(p.Jitter >= 0 && p.Jitter <= 1, "retry_policy.jitter must be from 0 to 1"),
	)
}

func checkErrorRule(rule *ErrorRule) error {
	errs := []error{
		unless(rule.Do <= DoReplace, "do %s", rule.Do),
		unless(rule.Do == DoReplace || len(rule.With) == 0, "only do: replace takes replacements"),
		unless(rule.Do != DoReplace || len(rule.With) > 0, "do: replace needs a replacement"),
		unless(len(rule.With) <= MaxReplacements, "at most %d replacements", MaxReplacements),
	}
	for i := range rule.With {
		if err := checkBody(&rule.With[i]); err != nil {
			errs = append(errs, prefix(fmt.Sprintf("with[%d]", i), err))
		}
	}
	return errors.Join(errs...)
}

// unless returns an error if holds is false, and nil otherwise.
func unless(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// prefix puts a location in front of each of the joined errors.
func prefix(where string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", where, err)
	}
	errs := slices.Clone(joined.Unwrap())
	for i := range errs {
		errs[i] = prefix(where, errs[i])
	}
	return errors.Join(errs...)
}

const fewNames = 8 // longest list that some prints in full

// some joins the names of a list. It shortens a long list to its first names and the number of the others.
func some(names []string) string {
	if len(names) <= fewNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
}

// anyOf joins names as alternatives: "a, b or c".
func anyOf(names []string) string {
	last := len(names) - 1
	switch {
	case last >= fewNames:
		return fmt.Sprintf("%s or one of %d more", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
	case last > 0:
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return names[0]
}
