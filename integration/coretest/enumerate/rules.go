package enumerate

import (
	"fmt"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// fate is how a task's body ends, and its publish if it has one.
type fate int

const (
	succeeds fate = iota
	fails
	skips
	publishFails
)

// Rules plays a graph once, in one order, for every trigger rule of each task with parents, every state of each edge, and
// every set of outcomes. A task with a child on a `finished` edge publishes.
func Rules(parents [][]int) (Count, error) {
	var sum Count
	for o := newOdometer(); ; {
		spec := chooseRules(o, parents)
		g, err := dagrun.Compile(spec)
		if err != nil {
			return sum, err
		}
		n, err := everyFate(g, spec.Steps, parents)
		if err != nil {
			return sum, fmt.Errorf("%w\n%+v", err, spec.Steps)
		}
		sum.Add(Count{Cases: 1, Histories: n})
		if !o.Next() {
			return sum, nil
		}
	}
}

func chooseRules(o *odometer, parents [][]int) dagrun.Spec {
	spec := specOf(parents)
	for i, ps := range parents {
		s := &spec.Steps[i]
		if len(ps) > 0 {
			s.Rule = dagrun.Rule(o.N(int(dagrun.NoneSkipped) + 1))
		}
		for k, p := range ps {
			s.Depends[k].State = dagrun.EdgeState(o.N(int(dagrun.OnStarted) + 1))
			if s.Depends[k].State == dagrun.OnFinished {
				spec.Steps[p].Publish = true
			}
		}
	}
	return spec
}

func everyFate(g *dagrun.Graph, steps []dagrun.Step, parents [][]int) (n int, err error) {
	fates := make([]fate, len(steps))
	for o := newOdometer(); ; n++ {
		for i := range fates {
			ways := 3
			if steps[i].Publish {
				ways = 4
			}
			fates[i] = fate(o.N(ways))
		}
		got, verdict, err := playOnce(g, steps, fates)
		want, wantVerdict := workedOut(steps, parents, fates), dagrun.RunSucceeded
		if slices.ContainsFunc(want, failed) {
			wantVerdict = dagrun.RunFailed
		}
		if err == nil && (!slices.Equal(got, want) || verdict != wantVerdict) {
			err = fmt.Errorf("fates %v: states %v of a run that %s, want %v and %s", fates, got, verdict, want, wantVerdict)
		}
		if err != nil {
			return n, err
		}
		if !o.Next() {
			return n + 1, nil
		}
	}
}

// playOnce returns the final states and the verdict of a run in which every task starts at once and the lowest number
// ends first.
func playOnce(g *dagrun.Graph, steps []dagrun.Step, fates []fate) ([]dagrun.State, dagrun.RunState, error) {
	run := dagrun.New(g, dagrun.Options{})
	err := run.Step(dagrun.Event{Kind: dagrun.EvBegin, At: 1})
	under, publishing := make([]bool, len(steps)), make([]bool, len(steps))
	for err == nil {
		if err := grantAll(run, under); err != nil {
			return nil, 0, err
		}
		ready, _ := run.Ready()
		if run.Advance(); run.Over() {
			return statesOf(run, len(steps)), ready.Result.State, nil
		}
		i := slices.Index(under, true)
		if i < 0 {
			return nil, 0, fmt.Errorf("fates %v: nothing is under way in %v", fates, statesOf(run, len(steps)))
		}
		res := &dagrun.Result{}
		if fates[i] == fails || publishing[i] && fates[i] == publishFails {
			res = &dagrun.Result{Kind: dagrun.KindExit, ExitCode: 3, HasExit: true}
		}
		if fates[i] == skips {
			res = &dagrun.Result{Kind: dagrun.KindExit, ExitCode: skipCode, HasExit: true}
		}
		publishing[i] = !publishing[i] && steps[i].Publish && fates[i] != fails && fates[i] != skips
		under[i] = publishing[i]
		err = run.Step(dagrun.Event{Kind: dagrun.EvFinished, At: 1, Task: dagrun.TaskID{Step: i}, Attempt: 1, Result: res})
	}
	return nil, 0, err
}

// grantAll grants all wants, and the wants that follow from these grants.
func grantAll(run *dagrun.Run, under []bool) error {
	for ready, _ := run.Ready(); len(ready.Wants) > 0; ready, _ = run.Ready() {
		for _, w := range slices.Clone(ready.Wants) {
			under[w.Task.Step] = true
			if err := run.Step(dagrun.Event{Kind: dagrun.EvGranted, At: 1, Task: w.Task}); err != nil {
				return err
			}
		}
	}
	return nil
}

// workedOut computes the same states as playOnce: it judges all tasks again until nothing changes.
func workedOut(steps []dagrun.Step, parents [][]int, fates []fate) []dagrun.State {
	states, started := make([]dagrun.State, len(steps)), make([]bool, len(steps))
	for {
		for range steps {
			for i := range steps {
				if states[i] == dagrun.TaskPending {
					states[i] = judged(&steps[i], parents[i], states, started)
					started[i] = states[i] == dagrun.TaskRunning
				}
			}
		}
		i := slices.IndexFunc(states, func(s dagrun.State) bool { return s == dagrun.TaskRunning || s == dagrun.TaskFinishing })
		switch {
		case i < 0:
			return states
		case fates[i] == fails || states[i] == dagrun.TaskFinishing && fates[i] == publishFails:
			states[i] = dagrun.TaskFailed
		case fates[i] == skips:
			states[i] = dagrun.TaskSkipped
		case steps[i].Publish && states[i] == dagrun.TaskRunning:
			states[i] = dagrun.TaskFinishing
		default:
			states[i] = dagrun.TaskSucceeded
		}
	}
}

// judged applies the table of trigger rules.
func judged(s *dagrun.Step, parents []int, states []dagrun.State, started []bool) dagrun.State {
	var good, bad, skipped, open int
	for k, p := range parents {
		edge := s.Depends[k].State
		switch {
		case edge == dagrun.OnStarted && started[p], edge == dagrun.OnFinished && states[p] == dagrun.TaskFinishing,
			states[p] == dagrun.TaskSucceeded:
			good++
		case failed(states[p]):
			bad++
		case states[p] == dagrun.TaskSkipped:
			skipped++
		default:
			open++
		}
	}
	early := s.Rule == dagrun.OneSuccess && good > 0 || s.Rule == dagrun.OneFailed && bad > 0 || s.Rule == dagrun.OneDone && good+bad > 0
	switch {
	case early || len(parents) == 0:
		return dagrun.TaskRunning
	case open > 0:
		return dagrun.TaskPending
	case s.Rule == dagrun.AllSuccess && bad+skipped == 0, s.Rule == dagrun.AllDone, s.Rule == dagrun.AllFailed && good+skipped == 0,
		s.Rule == dagrun.NoneFailed && bad == 0, s.Rule == dagrun.NoneFailedMinOneSuccess && bad == 0 && good > 0,
		s.Rule == dagrun.NoneSkipped && skipped == 0:
		return dagrun.TaskRunning
	case bad > 0:
		return dagrun.TaskUpstreamFailed
	}
	return dagrun.TaskSkipped
}

// statesOf returns the states of the first n steps.
func statesOf(run *dagrun.Run, n int) []dagrun.State {
	states := make([]dagrun.State, n)
	for i := range states {
		t, _ := run.Task(dagrun.TaskID{Step: i})
		states[i] = t.State
	}
	return states
}
