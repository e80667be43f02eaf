package dagruntest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Graphs are all graphs of n tasks: parents[i] lists what task i depends on. With all index orders a graph comes once
// for every way to number its tasks, else its tasks are numbered parents first.
func Graphs(n int, allOrders bool) [][][]int {
	var all [][][]int
	for o := NewOdometer(); ; {
		parents := make([][]int, n)
		for i := range n {
			for p := range n {
				if (p < i || (allOrders && p != i)) && o.N(2) == 1 {
					parents[i] = append(parents[i], p)
				}
			}
		}
		if acyclic(parents) {
			all = append(all, parents)
		}
		if !o.Next() {
			return all
		}
	}
}

func acyclic(parents [][]int) bool {
	done := make([]bool, len(parents))
	for range parents {
		for i := range parents {
			done[i] = !slices.ContainsFunc(parents[i], func(p int) bool { return !done[p] })
		}
	}
	return !slices.Contains(done, false)
}

// SpecOf makes tasks of a graph, default rule and edges.
func SpecOf(parents [][]int) dagrun.Spec {
	spec := dagrun.Spec{Steps: make([]dagrun.Step, len(parents))}
	for i, ps := range parents {
		spec.Steps[i].Name = stepName(i)
		spec.Steps[i].SkipExit = []int{99}
		for _, p := range ps {
			spec.Steps[i].Depends = append(spec.Steps[i].Depends, dagrun.Edge{Step: stepName(p)})
		}
	}
	return spec
}

// outcome of a body, by class.
func outcomeOf(c Class) dagrun.Result {
	switch c {
	case F:
		return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true}
	case K:
		return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 99, HasExit: true}
	}
	return dagrun.Result{HasExit: true}
}

// Crashes explores all histories of one graph with given outcomes: every completion order, and up to so many crashes,
// each at any commit, after any prefix of its rows. What follows from a stored state is explored once.
type Crashes struct {
	graph    *dagrun.Graph
	parents  [][]int
	outcomes []Class
	known    map[string]int
	// Runs are the drives played, Histories the paths they stand for.
	Runs, Histories int
}

// NewCrashes prepares a graph.
func NewCrashes(parents [][]int, outcomes []Class) (*Crashes, error) {
	g, err := dagrun.Compile(SpecOf(parents))
	return &Crashes{graph: g, parents: parents, outcomes: outcomes, known: map[string]int{}}, err
}

// Explore all with up to so many crashes.
func (x *Crashes) Explore(crashes int) error {
	n, err := x.from(NewKept(), crashes)
	x.Histories += n
	return err
}

// from explores what can follow a stored state, and counts the histories.
func (x *Crashes) from(k *Kept, crashes int) (int, error) {
	key := fmt.Sprint(crashes, x.fingerprint(k))
	if n, ok := x.known[key]; ok {
		return n, nil
	}
	total := 0
	for o := NewOdometer(); ; {
		n, err := x.drive(o, k.Clone(), crashes)
		if err != nil {
			return 0, err
		}
		total += n
		if !o.Next() {
			x.known[key] = total
			return total, nil
		}
	}
}

// drive plays one drive to its end and counts it, together with the histories that leave it by a crash at a commit
// that no drive before it came to.
func (x *Crashes) drive(o *Odometer, k *Kept, crashes int) (int, error) {
	x.Runs++
	run, err := dagrun.Restore(x.graph, dagrun.Options{}, k.Saved())
	if err != nil {
		return 0, err
	}
	if err := run.Step(dagrun.Event{Kind: dagrun.EvBegin, At: 1}); err != nil {
		return 0, err
	}
	total := 1
	var running []dagrun.TaskID
	for range 100 {
		n, err := x.commit(o, run, k, crashes, &running)
		if err != nil {
			return 0, err
		}
		total += n
		if run.Over() {
			return total, x.checkEnd(k)
		}
		if len(running) == 0 {
			continue // a grant is on its way
		}
		i := o.N(len(running))
		id := running[i]
		running = slices.Delete(running, i, i+1)
		r := outcomeOf(x.outcomes[id.Step])
		if err := run.Step(dagrun.Event{Kind: dagrun.EvFinished, At: 1, Task: id, Attempt: k.Tasks[id].Attempt, Result: &r}); err != nil {
			return 0, fmt.Errorf("%s finished: %w", x.graph.TaskName(id), err)
		}
	}
	return 0, errors.New("the run does not end")
}

// commit grants what is wanted, explores the crashes, keeps the batch and performs it.
func (x *Crashes) commit(o *Odometer, run *dagrun.Run, k *Kept, crashes int, running *[]dagrun.TaskID) (int, error) {
	ready, _ := run.Ready()
	for _, w := range slices.Clone(ready.Wants) {
		if err := run.Step(dagrun.Event{Kind: dagrun.EvGranted, At: 1, Task: w.Task}); err != nil {
			return 0, err
		}
	}
	ready, _ = run.Ready()
	total := 0
	if crashes > 0 && o.Fresh() {
		for n := range len(ready.Records.Tasks) + 2 {
			after := k.Clone()
			if n > len(ready.Records.Tasks) {
				after.Commit(ready.Records)
				if after.Run.State.Terminal() {
					continue
				}
			} else {
				after.CommitPrefix(ready.Records, n)
			}
			sub, err := x.from(after, crashes-1)
			if err != nil {
				return 0, fmt.Errorf("after %d of %d rows: %w", n, len(ready.Records.Tasks), err)
			}
			total += sub
		}
	}
	for _, a := range ready.Actions {
		if err := x.checkStart(k, a); err != nil {
			return 0, err
		}
		*running = append(*running, a.Task)
	}
	k.Commit(ready.Records)
	run.Advance()
	return total, nil
}

// checkStart holds a start against the promises: not what has succeeded, not before its parents, no number twice.
func (x *Crashes) checkStart(k *Kept, a dagrun.Action) error {
	before := k.Tasks[a.Task]
	switch {
	case a.Kind != dagrun.ActStart:
		return fmt.Errorf("%s where only starts are expected", a.Kind)
	case before.State.Terminal():
		return fmt.Errorf("%s starts though it is recorded as %s", x.graph.TaskName(a.Task), before.State)
	case a.Attempt != before.Attempt+1:
		return fmt.Errorf("%s starts attempt %d after %d", x.graph.TaskName(a.Task), a.Attempt, before.Attempt)
	}
	return nil
}

// checkEnd compares the stored end with what follows from graph and outcomes alone.
func (x *Crashes) checkEnd(k *Kept) error {
	want := make([]dagrun.State, len(x.parents))
	verdict := dagrun.RunSucceeded
	for range x.parents {
		for i, ps := range x.parents {
			want[i] = stateOf(x.outcomes[i], ps, want)
		}
	}
	for i := range want {
		if got := k.Tasks[dagrun.TaskID{Step: i}].State; got != want[i] {
			return fmt.Errorf("%s ends %s, want %s", stepName(i), got, want[i])
		}
		if want[i] == dagrun.TaskFailed {
			verdict = dagrun.RunFailed
		}
	}
	if k.Run.State != verdict {
		return fmt.Errorf("the run ends %s, want %s", k.Run.State, verdict)
	}
	return nil
}

func stateOf(own Class, parents []int, states []dagrun.State) dagrun.State {
	end := map[Class]dagrun.State{S: dagrun.TaskSucceeded, F: dagrun.TaskFailed, K: dagrun.TaskSkipped}[own]
	for _, p := range parents {
		switch states[p] {
		case dagrun.TaskFailed, dagrun.TaskUpstreamFailed:
			return dagrun.TaskUpstreamFailed
		case dagrun.TaskSkipped:
			end = dagrun.TaskSkipped
		}
	}
	return end
}

// fingerprint of what decides about the future: not the sequence numbers.
func (x *Crashes) fingerprint(k *Kept) string {
	var b strings.Builder
	fmt.Fprint(&b, k.Run.State)
	for i := range x.parents {
		t := k.Tasks[dagrun.TaskID{Step: i}]
		fmt.Fprint(&b, ";", t.State, t.Attempt)
	}
	return b.String()
}
