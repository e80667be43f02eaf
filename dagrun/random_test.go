package dagrun

import (
	"fmt"
	"math/rand/v2"
)

// dice makes small graphs that use everything at once.
type dice struct{ *rand.Rand }

// one says yes in one of n cases.
func (d dice) one(n int) bool { return d.IntN(n) == 0 }

func (d dice) spec() Spec {
	var s Spec
	for i := range 1 + d.IntN(6) {
		s.Steps = append(s.Steps, d.step(i))
	}
	for _, name := range handlerNames {
		if d.one(2) {
			step := d.body()
			step.Name, step.OnError = name, d.rules(4)
			s.Handlers = append(s.Handlers, step)
		}
	}
	s.FailFast = d.one(4)
	if d.one(3) {
		s.MaxActive = 1 + d.IntN(2)
	}
	if d.one(4) {
		s.Timeout = Duration(1 + d.IntN(200_000))
	}
	return s
}

func (d dice) step(i int) Step {
	step := d.body()
	step.Name, step.OnError = fmt.Sprintf("s%d", i), d.rules(3)
	switch {
	case d.one(4):
		step.Foreach = d.foreach()
		step.WhenPerItem = step.When != nil && d.one(2)
	case d.one(8):
		step.Result = &Result{}
		if d.one(2) {
			*step.Result = exit3
		}
	}
	for k := range i {
		if d.one(2) {
			step.Depends = append(step.Depends, Edge{fmt.Sprintf("s%d", k), EdgeState(d.IntN(3))})
		}
	}
	if len(step.Depends) > 0 && d.one(2) {
		step.Rule = Rule(d.IntN(9))
	}
	return step
}

func (d dice) foreach() *Foreach {
	var it items
	for k := range d.IntN(4) {
		it = append(it, Item{Key: fmt.Sprintf("k%d", k)})
	}
	return &Foreach{Items: it, MaxConcurrent: d.IntN(3), FailFast: d.one(2)}
}

// body is what steps, handlers and replacements have in common.
func (d dice) body() Step {
	step := Step{Priority: d.IntN(3)}
	if d.one(3) {
		step.Body = Body(d.IntN(5))
	}
	if d.one(4) {
		step.Retry = RetryPolicy{Limit: 1 + d.IntN(2), Interval: Duration(d.IntN(3)) * 40_000, Backoff: 2, Jitter: 0.5}
	}
	if d.one(5) {
		step.Timeout = Duration(1 + d.IntN(50_000))
	}
	if d.one(5) {
		step.Publish = true
		step.PublishPool = []string{"", "p"}[d.IntN(2)]
	}
	if d.one(6) {
		step.OnLost = LostFail
	}
	if d.one(6) {
		step.ContinueOn = ContinueOn{Failed: d.one(2), Skipped: d.one(2), MarkSuccess: d.one(2)}
	}
	if d.one(6) {
		step.SkipExit = []int{3}
	}
	if d.one(6) {
		step.CacheKey = text("k")
	}
	if d.one(6) {
		step.When = truth(!d.one(3))
	}
	return step
}

// rules makes on_error rules in one of n cases.
func (d dice) rules(n int) []ErrorRule {
	if !d.one(n) {
		return nil
	}
	var rules []ErrorRule
	for range d.IntN(3) {
		rule := ErrorRule{Do: Do(d.IntN(5))}
		if d.one(2) {
			rule.When = truth(d.one(2))
		}
		for rule.Do == DoReplace && len(rule.With) < 2 {
			with := d.body()
			if d.one(3) {
				with.OnError = []ErrorRule{{Do: DoReplace, With: []Step{d.body()}}}
			}
			if rule.With = append(rule.With, with); d.one(2) {
				break
			}
		}
		rules = append(rules, rule)
	}
	return rules
}
