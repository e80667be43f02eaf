package coretest

import (
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Features are what a random graph may use.
type Features struct {
	Rules, Edges, Growth, Errors, Waits, Handlers, Limits, Conditions, Cache, Publish bool
}

// AllFeatures allows every feature.
var AllFeatures = Features{true, true, true, true, true, true, true, true, true, true}

func someFeatures(c *Choices) Features {
	if c.OneIn(4) {
		return AllFeatures
	}
	f := func() bool { return c.OneIn(2) }
	return Features{f(), f(), f(), f(), f(), f(), f(), f(), f(), f()}
}

// RandomSpec returns a graph of up to size steps. A step may stand before its parents in the list.
func RandomSpec(c *Choices, size int) (dagrun.Spec, dagrun.Options) {
	f := someFeatures(c)
	n := 1 + c.N(size)
	order := c.Shuffled(n)
	edges := Pick(c, ladder, diamonds, fan, scattered, scattered)(c, n)
	spec := dagrun.Spec{Steps: make([]dagrun.Step, n)}
	for i := range n {
		s := &spec.Steps[order[i]]
		*s = randomStep(c, f, 0)
		s.Name = c.stepName(order[i])
		for p := range i {
			if edges[i][p] {
				s.Depends = append(s.Depends, dagrun.Edge{Step: c.stepName(order[p]), State: edgeState(c, f)})
			}
		}
		if f.Rules && len(s.Depends) > 0 && c.OneIn(2) {
			s.Rule = dagrun.Rule(c.N(int(dagrun.NoneSkipped) + 1))
		}
		if f.Growth && c.OneIn(4) {
			foreach(c, s)
		}
		if f.Conditions && c.OneIn(3) {
			s.When = randomWhen(c, s)
		}
	}
	if f.Limits {
		spec.MaxActive = c.N(4)
		spec.FailFast = c.OneIn(4)
		spec.Timeout = Pick(c, 0, 0, dagrun.Duration(7_000), 70_000)
	}
	if f.Handlers {
		addHandlers(c, f, &spec)
	}
	noInstantFailures(&spec)
	opts := dagrun.Options{Seed: uint64(c.N(256))}
	if f.Cache && !spec.FailFast && c.OneIn(3) {
		if s := spec.Steps[c.N(n)]; s.Foreach == nil {
			opts.Precomputed = map[string]dagrun.Result{s.Name: randomResult(c)}
		}
	}
	return spec, opts
}

func stepName(i int) string { return fmt.Sprintf("s%d", i) }

func (c *Choices) stepName(i int) string { return c.prefix + stepName(i) }

// The shapes decide which step depends on which, by place in a topological order.

func shape(n int, is func(child, parent int) bool) [][]bool {
	edges := make([][]bool, n)
	for i := range n {
		edges[i] = make([]bool, i)
		for p := range i {
			edges[i][p] = is(i, p)
		}
	}
	return edges
}

func ladder(c *Choices, n int) [][]bool {
	width := 1 + c.N(3)
	return shape(n, func(i, p int) bool { return i/width-p/width == 1 })
}

func diamonds(_ *Choices, n int) [][]bool {
	return shape(n, func(i, p int) bool {
		if i%3 == 0 {
			return p == i-1 || p == i-2
		}
		return p == i-i%3
	})
}

func fan(c *Choices, n int) [][]bool {
	out := c.OneIn(2)
	return shape(n, func(i, p int) bool {
		if out {
			return p == 0
		}
		return i == n-1
	})
}

func scattered(c *Choices, n int) [][]bool {
	return shape(n, func(int, int) bool { return c.OneIn(3) })
}

func edgeState(c *Choices, f Features) dagrun.EdgeState {
	if !f.Edges {
		return dagrun.OnSucceeded
	}
	return dagrun.EdgeState(c.N(3))
}

// randomStep returns a step with random settings. Replacements nest only up to a limit.
func randomStep(c *Choices, f Features, depth int) dagrun.Step {
	var s dagrun.Step
	if f.Waits && c.OneIn(3) {
		s.Body = dagrun.Body(c.N(int(dagrun.BodyChild) + 1))
	}
	if c.OneIn(3) {
		s.Timeout = Pick(c, dagrun.Duration(3_000), 90_000)
	}
	s.Priority = c.N(3)
	if f.Limits && c.OneIn(6) {
		s.PriorityExpr = Pick(c, Prio(2), Prio(-1), Prio(-999))
	}
	if f.Publish && c.OneIn(3) {
		s.Publish = true
		s.PublishPools = Pick(c, nil, nil, []dagrun.PoolUse{{Pool: "pool", Weight: 1}})
		s.PublishTimeout = Pick(c, 0, dagrun.Duration(3_000))
	}
	if f.Cache && c.OneIn(5) {
		s.CacheKey = Pick(c, Key("k"), Key("k"), Key("k"), Key(""))
	} else if f.Cache && c.OneIn(6) {
		r := randomResult(c)
		s.Result = &r
	}
	if s.Body == dagrun.BodyApproval && s.Priority < 2 {
		s.Approval = &dagrun.Approval{Approvers: []string{"boss"}}
		s.CacheKey, s.Result = nil, nil
	}
	if f.Errors {
		randomErrors(c, f, &s, depth)
	}
	return s
}

func randomErrors(c *Choices, f Features, s *dagrun.Step, depth int) {
	if c.OneIn(2) {
		s.Retry = dagrun.RetryPolicy{
			Limit: c.N(3), Interval: Pick(c, dagrun.Duration(0), 2_000, 40_000),
			Backoff: Pick(c, 0, 1, 2.5), MaxInterval: Pick(c, dagrun.Duration(0), 0, 50_000),
		}
		if c.OneIn(4) {
			s.Retry.ExitCodes = []int{1}
		}
		if c.OneIn(4) {
			s.Retry.Kinds = []dagrun.FailureKind{dagrun.KindExit, dagrun.KindRejected, dagrun.KindLost}
		}
	}
	for c.OneIn(3) && len(s.OnError) < 3 {
		rule := dagrun.ErrorRule{Do: dagrun.Do(c.N(int(dagrun.DoAsk) + 1))}
		rule.When = Pick[dagrun.Condition](c, nil, Exited(1), Exited(2), FailedAs(dagrun.KindLost), FailedAs(dagrun.KindTimeout), Wrong)
		if rule.Do >= dagrun.DoReplace && (!f.Growth || depth > 1) {
			rule.Do = dagrun.DoContinue
		}
		randomReplacements(c, f, &rule, depth)
		s.OnError = append(s.OnError, rule)
	}
	if c.OneIn(4) {
		s.ContinueOn = dagrun.ContinueOn{Failed: c.OneIn(2), Skipped: c.OneIn(2), MarkSuccess: c.OneIn(3)}
		if c.OneIn(3) {
			s.ContinueOn.ExitCodes = []int{2, 124}
		}
	}
	if c.OneIn(4) {
		s.SkipExit = []int{99}
	}
	s.OnLost = dagrun.OnLost(c.N(2))
}

// randomReplacements gives a rule that replaces its bodies, some of them by data, and a body to ask.
func randomReplacements(c *Choices, f Features, rule *dagrun.ErrorRule, depth int) {
	for rule.Do >= dagrun.DoReplace && (len(rule.With) == 0 || (len(rule.With) < 4 && c.OneIn(3))) {
		with := randomStep(c, f, depth+1)
		if f.Conditions && c.OneIn(4) {
			with.When = Pick(c, True, False, Exited(1), Given("x"))
		}
		if rule.Do == dagrun.DoReplace && c.OneIn(3) {
			with.Result = nil
			with.Foreach = &dagrun.Foreach{MaxItems: Pick(c, 0, 0, 2), Items: Pick[dagrun.Expander](c, Keys{"x"}, Keys{"y", "x"}, Keys{"x", "x", "x"}, Keys{}, NoItems{})}
		}
		rule.With = append(rule.With, with)
	}
	if rule.Do == dagrun.DoAsk {
		rule.Ask = &dagrun.Step{Timeout: Pick(c, 0, dagrun.Duration(3_000)), Retry: dagrun.RetryPolicy{Limit: c.N(2)}, Slots: c.N(2)}
		rule.Chooser = ByOutputs{len(rule.With)}
	}
}

func foreach(c *Choices, s *dagrun.Step) {
	s.Result = nil
	s.Foreach = &dagrun.Foreach{MaxConcurrent: c.N(3), FailFast: c.OneIn(4), MaxItems: Pick(c, 0, 0, 2)}
	s.Foreach.Items = Pick[dagrun.Expander](c, Keys{"x", "y"}, Keys{"x"}, Keys{"z", "y", "x"}, Keys{}, Keys{"x", "x"}, NoItems{})
}

// randomWhen returns a condition that looks only at what cannot change while the step is judged.
func randomWhen(c *Choices, s *dagrun.Step) dagrun.Condition {
	if s.Foreach != nil && c.OneIn(2) {
		s.WhenPerItem = true
		return Pick(c, ItemIsNot("x"), ItemIsNot("y"), False)
	}
	early := s.Rule == dagrun.OneSuccess || s.Rule == dagrun.OneFailed || s.Rule == dagrun.OneDone
	for _, e := range s.Depends {
		if e.State == dagrun.OnSucceeded && !early && c.OneIn(2) {
			return Pick(c, StepIs(e.Step, dagrun.TaskSucceeded), StepIs(e.Step, dagrun.TaskSkipped), SomeItem(e.Step, dagrun.TaskSucceeded))
		}
	}
	return Pick(c, True, False, True, Wrong)
}

// noInstantFailures removes failures without a body from graphs with fail_fast, because the language does not say which
// of two such failures in one event is the first.
func noInstantFailures(spec *dagrun.Spec) {
	for i := range spec.Steps {
		s := &spec.Steps[i]
		if !spec.FailFast && (s.Foreach == nil || !s.Foreach.FailFast) {
			continue
		}
		s.Result = nil
		if s.When != nil && s.When.String() == Wrong.String() {
			s.When = nil
			s.WhenPerItem = false
		}
		if s.CacheKey == Key("") {
			s.CacheKey = nil
		}
		if s.Foreach != nil {
			s.Foreach.Items, s.Foreach.MaxItems = Keys{"y", "x"}, 0
		}
		for r := range s.OnError {
			for w := range s.OnError[r].With {
				with := &s.OnError[r].With[w]
				with.Result, with.CacheKey = nil, nil
			}
		}
	}
}

func addHandlers(c *Choices, f Features, spec *dagrun.Spec) {
	names := []string{dagrun.InitHandler, dagrun.SuccessHandler, dagrun.FailureHandler, dagrun.AbortHandler, dagrun.ExitHandler}
	for _, i := range c.Shuffled(len(names)) {
		if c.OneIn(2) {
			h := randomStep(c, f, 1)
			h.Name = names[i]
			if f.Conditions && c.OneIn(4) {
				h.When = Pick(c, False, RunIs(dagrun.RunFailed), RunIs(dagrun.RunSucceeded), Wrong)
			}
			spec.Handlers = append(spec.Handlers, h)
		}
	}
}

// randomResult returns one of the ways in which a body may end.
func randomResult(c *Choices) dagrun.Result {
	if c.OneIn(2) {
		return dagrun.Result{Outputs: Pick(c, dagrun.JSON(""), `{"n":1}`), HasExit: true}
	}
	switch c.N(8) {
	case 0:
		return dagrun.Result{Kind: dagrun.KindSignal, Signal: 9, ExitCode: 137, HasExit: true}
	case 1:
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: "bad reference"}
	case 2:
		return dagrun.Result{Kind: dagrun.KindOutput, Reason: "too large"}
	case 3:
		return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 99, HasExit: true}
	case 4:
		return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true, Permanent: true}
	}
	return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1 + c.N(2), HasExit: true}
}
