package dagruntest

import (
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// OneOrder plays a run without crash in the one order where everything starts as soon as it can, and the running task
// with the lowest number ends next. It gives the states at the end.
func OneOrder(g *dagrun.Graph, outcomes []Class) ([]dagrun.State, dagrun.RunState, error) {
	run := dagrun.New(g, dagrun.Options{})
	if err := run.Step(dagrun.Event{Kind: dagrun.EvBegin, At: 1}); err != nil {
		return nil, 0, err
	}
	running := make([]bool, g.Len())
	for {
		for ready, _ := run.Ready(); len(ready.Wants) > 0; ready, _ = run.Ready() {
			id := ready.Wants[0].Task
			if err := run.Step(dagrun.Event{Kind: dagrun.EvGranted, At: 1, Task: id}); err != nil {
				return nil, 0, err
			}
			running[id.Step] = true
		}
		ready, _ := run.Ready()
		run.Advance()
		if run.Over() {
			return StatesOf(run, g.Len()), ready.Result.State, nil
		}
		id := dagrun.TaskID{Step: first(running)}
		if id.Step < 0 {
			return nil, 0, fmt.Errorf("nothing runs and nothing ends: %v", StatesOf(run, g.Len()))
		}
		running[id.Step] = false
		r := outcomeOf(outcomes[id.Step])
		if err := run.Step(dagrun.Event{Kind: dagrun.EvFinished, At: 1, Task: id, Attempt: 1, Result: &r}); err != nil {
			return nil, 0, err
		}
	}
}

// StatesOf lists the states of the first n steps.
func StatesOf(run *dagrun.Run, n int) []dagrun.State {
	states := make([]dagrun.State, n)
	for i := range states {
		t, _ := run.Task(dagrun.TaskID{Step: i})
		states[i] = t.State
	}
	return states
}

func first(list []bool) int {
	for i, yes := range list {
		if yes {
			return i
		}
	}
	return -1
}

// OneOrderByHand is the same worked out with arrays: a task is open, running, or has a class.
func OneOrderByHand(steps []dagrun.Step, outcomes []Class) ([]dagrun.State, dagrun.RunState) {
	n := len(steps)
	class, blocked, running, started := make([]Class, n), make([]bool, n), make([]bool, n), make([]bool, n)
	for {
		for changed := true; changed; {
			changed = false
			for i := range steps {
				if class[i] != 0 || running[i] {
					continue
				}
				switch judgeByHand(&steps[i], class, started) {
				case Runs:
					running[i], started[i], changed = true, true, true
				case Skips:
					class[i], changed = K, true
				case Fails:
					class[i], blocked[i], changed = F, true, true
				}
			}
		}
		i := first(running)
		if i < 0 {
			return wordsFor(class, blocked)
		}
		running[i], class[i] = false, outcomes[i]
	}
}

func judgeByHand(s *dagrun.Step, class []Class, started []bool) Judgement {
	parents := make([]Class, len(s.Depends))
	for k, e := range s.Depends {
		p := int(e.Step[1] - '0')
		parents[k] = class[p]
		if e.State == dagrun.OnStarted && started[p] {
			parents[k] = S
		}
	}
	return Judge(s.Rule, parents)
}

func wordsFor(class []Class, blocked []bool) ([]dagrun.State, dagrun.RunState) {
	states, verdict := make([]dagrun.State, len(class)), dagrun.RunSucceeded
	for i, c := range class {
		states[i] = map[Class]dagrun.State{S: dagrun.TaskSucceeded, F: dagrun.TaskFailed, K: dagrun.TaskSkipped}[c]
		if blocked[i] {
			states[i] = dagrun.TaskUpstreamFailed
		}
		if c == F {
			verdict = dagrun.RunFailed
		}
	}
	return states, verdict
}
