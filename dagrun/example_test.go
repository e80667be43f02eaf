package dagrun_test

import (
	"fmt"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// The loop of a driver: events in, records to commit, then actions to perform. Here a commit is a line, and each body ends at
// once.
func Example() {
	graph, err := dagrun.Compile(dagrun.Spec{Steps: []dagrun.Step{
		{Name: "fetch"},
		{Name: "load", Depends: []dagrun.Edge{{Step: "fetch"}}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	run := dagrun.New(graph, dagrun.Options{}) // or Restore(graph, options, saved)
	now := dagrun.Time(1)
	step := func(e dagrun.Event) {
		e.At = now
		if err := run.Step(e); err != nil {
			fmt.Println(err)
		}
	}
	step(dagrun.Event{Kind: dagrun.EvBegin})
	for !run.Over() {
		ready, more := run.Ready()
		if !more {
			now = ready.WakeAt // nothing else to wait for here: a real driver waits for events until then
			step(dagrun.Event{Kind: dagrun.EvTick})
			continue
		}
		if len(ready.Wants) > 0 { // there is a slot for each, so the start goes into the same commit
			for _, want := range ready.Wants {
				step(dagrun.Event{Kind: dagrun.EvGranted, Task: want.Task})
			}
			ready, _ = run.Ready()
		}
		for _, task := range ready.Records.Tasks { // one fenced commit
			fmt.Println("commit:", graph.TaskName(task.ID), task.State)
		}
		if ready.Result != nil {
			fmt.Println("the run has", ready.Result.State)
		}
		actions := slices.Clone(ready.Actions) // what Ready shows is valid until Advance
		run.Advance()
		for _, action := range actions { // only after the commit
			fmt.Println("start:", graph.TaskName(action.Task))
			step(dagrun.Event{Kind: dagrun.EvStarted, Task: action.Task, Attempt: action.Attempt})
			step(dagrun.Event{Kind: dagrun.EvFinished, Task: action.Task, Attempt: action.Attempt, Result: &dagrun.Result{}})
		}
	}
	// Output:
	// commit: fetch running
	// start: fetch
	// commit: fetch succeeded
	// commit: load running
	// start: load
	// commit: load succeeded
	// the run has succeeded
}
