package enumerate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// check compares the end of a run with the end that follows from graph, outcomes and control.
func (c *Case) check(s *stored) error {
	for n := range s.asked {
		if s.answers[n] == "" {
			return fmt.Errorf("control %d was never decided", n+1)
		}
	}
	want, verdict := c.expected(s), dagrun.RunSucceeded
	for i := range c.parents {
		got := s.tasks[i].State
		if got != want[i] {
			return fmt.Errorf("%s ends %s, want %s (decisions %q)", c.graph.StepName(i), got, want[i], s.answers)
		}
		if verdict == dagrun.RunSucceeded && got == dagrun.TaskCanceled {
			verdict = dagrun.RunCanceled
		}
		if failed(got) {
			verdict = dagrun.RunFailed
		}
	}
	if c.plan.is(dagrun.VerbCancel) && c.plan.first.Task == nil && s.asked > 0 {
		verdict = dagrun.RunCanceled
	}
	if s.run.State != verdict {
		return fmt.Errorf("the run ends %s, want %s", s.run.State, verdict)
	}
	if c.plan.is(dagrun.VerbRetry) && s.asked > 0 {
		check := c.checkReset
		if c.plan.live {
			check = c.checkLive
		}
		if err := check(s); err != nil {
			return err
		}
	}
	return checkCounts(s.run.Counts, want)
}

func failed(s dagrun.State) bool { return s == dagrun.TaskFailed || s == dagrun.TaskUpstreamFailed }

func checkCounts(got dagrun.Counts, states []dagrun.State) error {
	want := dagrun.Counts{Total: len(states)}
	for _, s := range states {
		switch s {
		case dagrun.TaskSucceeded:
			want.Succeeded++
		case dagrun.TaskFailed:
			want.Failed++
		case dagrun.TaskSkipped:
			want.Skipped++
		case dagrun.TaskUpstreamFailed:
			want.UpstreamFailed++
		case dagrun.TaskCanceled:
			want.Canceled++
		}
	}
	if got != want {
		return fmt.Errorf("counts %+v, want %+v", got, want)
	}
	return nil
}

// expected returns the final states.
func (c *Case) expected(s *stored) []dagrun.State {
	fixed := make([]dagrun.State, len(c.parents))
	if c.plan.first == nil || s.asked == 0 {
		return c.follows(fixed, c.fails)
	}
	switch id := c.plan.first.Task; c.plan.first.Verb {
	case dagrun.VerbCancel:
		c.fixCanceled(s, fixed)
	case dagrun.VerbMark:
		if took(s.answers[0]) || strings.HasPrefix(s.tasks[id.Step].Reason, "marked") {
			fixed[id.Step] = c.plan.first.As
		}
	case dagrun.VerbRetry:
		if !c.plan.live {
			return c.retried()
		}
		return c.follows(fixed, c.failsStill(s))
	}
	return c.follows(fixed, c.fails)
}

// follows computes the states from graph and outcomes. Zero in fixed means that parents and body of the task decide.
func (c *Case) follows(fixed []dagrun.State, fails []bool) []dagrun.State {
	states := make([]dagrun.State, len(c.parents))
	for range c.parents {
		for i, ps := range c.parents {
			states[i] = stateOf(states, ps, fails[i])
			if fixed[i] != 0 {
				states[i] = fixed[i]
			}
		}
	}
	return states
}

func stateOf(states []dagrun.State, parents []int, fails bool) dagrun.State {
	end := dagrun.TaskSucceeded
	if fails {
		end = dagrun.TaskFailed
	}
	for _, p := range parents {
		if failed(states[p]) {
			return dagrun.TaskUpstreamFailed
		}
		if states[p] != dagrun.TaskSucceeded {
			end = dagrun.TaskSkipped
		}
	}
	return end
}

// fixCanceled fixes the states that a cancel causes. After a cancel of the run any task may be canceled or not, and after
// a canceled task none of its dependants runs. A cancel of a task cancels the task and all its dependants, or nothing if
// it came too late.
func (c *Case) fixCanceled(s *stored, fixed []dagrun.State) {
	if id := c.plan.first.Task; id != nil {
		if took(s.answers[0]) || s.tasks[id.Step].State == dagrun.TaskCanceled {
			for i := range fixed {
				if i == id.Step || c.dependsOn(i, id.Step) {
					fixed[i] = dagrun.TaskCanceled
				}
			}
		}
		return
	}
	for i := range fixed {
		if s.tasks[i].State == dagrun.TaskCanceled {
			fixed[i] = dagrun.TaskCanceled
		}
	}
}

func (c *Case) dependsOn(i, on int) bool {
	return slices.ContainsFunc(c.parents[i], func(p int) bool { return p == on || c.dependsOn(p, on) })
}

// retried returns the states after a retry in which every body succeeds.
func (c *Case) retried() []dagrun.State {
	before := c.follows(make([]dagrun.State, len(c.parents)), c.fails)
	fixed := slices.Clone(before)
	for i := range fixed {
		if c.isReset(before, i) {
			fixed[i] = 0
		}
	}
	return c.follows(fixed, make([]bool, len(c.parents)))
}

// checkReset returns an error unless the new generation holds exactly the tasks that the retry resets.
func (c *Case) checkReset(s *stored) error {
	before := c.follows(make([]dagrun.State, len(c.parents)), c.fails)
	for i := range c.parents {
		want := 1
		if c.isReset(before, i) {
			want = 2
		}
		if got := s.tasks[i].Generation; got != want {
			return fmt.Errorf("%s is of generation %d, want %d", c.graph.StepName(i), got, want)
		}
	}
	return nil
}

// failsStill returns which bodies fail: not the ones that a retry has reset.
func (c *Case) failsStill(s *stored) []bool {
	fails := slices.Clone(c.fails)
	for i := range fails {
		fails[i] = fails[i] && s.tasks[i].ResetBy == 0
	}
	return fails
}

// checkLive returns an error unless the retry of a task, while the run was under way, reset the task if it was applied, and nothing
// if it was refused, and else only dependants of the task. The generation stays.
func (c *Case) checkLive(s *stored) error {
	target := c.plan.first.Task.Step
	for i := range c.parents {
		reset := s.tasks[i].ResetBy != 0
		switch {
		case s.tasks[i].Generation != 1:
			return fmt.Errorf("%s is of generation %d, want 1", c.graph.StepName(i), s.tasks[i].Generation)
		case i == target && reset != took(s.answers[0]), reset && !took(s.answers[0]), reset && i != target && !c.dependsOn(i, target):
			return fmt.Errorf("%s is reset: %v, and the retry is %s", c.graph.StepName(i), reset, s.answers[0])
		}
	}
	return nil
}

// isReset reports whether the retry resets a task: it names the task, or it resets one of its parents and no failed
// parent that stays failed blocks the task.
func (c *Case) isReset(before []dagrun.State, i int) bool {
	mode := c.plan.first.Mode
	switch {
	case mode == dagrun.RetryAll:
		return true
	case mode == dagrun.RetryFailed && failed(before[i]):
		return true
	case mode != dagrun.RetryFailed && c.plan.first.Task.Step == i:
		return true
	case mode == dagrun.RetryStep:
		return false
	}
	reset := false
	for _, p := range c.parents[i] {
		yes := c.isReset(before, p)
		if !yes && failed(before[p]) {
			return false
		}
		reset = reset || yes
	}
	return reset
}
