package dagruntest

import (
	"fmt"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// TestEveryControlAndCrash is product (c): graphs of 3 tasks, one control at every point, one crash at every point, core
// against model.
func TestEveryControlAndCrash(t *testing.T) {
	t.Parallel()
	graphs := Graphs(3, *nightly)
	if underRace || testing.Short() {
		graphs = graphs[:1]
	}
	total := 0
	for _, g := range graphs {
		n, err := everyControl(g)
		if err != nil {
			t.Fatalf("parents %v: %v", g, err)
		}
		total += n
	}
	t.Logf("%d graphs: %d histories", len(graphs), total)
}

// everyControl plays all histories of a graph: the outcome of each task, which control comes before which event, which
// commit a crash follows and how much of it was kept.
func everyControl(g [][]int) (int, error) {
	spec := SpecOf(g)
	count := 0
	for o := NewOdometer(); ; count++ {
		h, err := newOneControl(o, spec)
		if err != nil {
			return count, err
		}
		if err := h.play(); err != nil {
			return count, fmt.Errorf("%w\n%s", err, h.Story())
		}
		if !o.Next() {
			return count + 1, nil
		}
	}
}

// oneControl is one history with one control and one crash.
type oneControl struct {
	*Pair
	o        *Odometer
	outcomes []Class
	control  dagrun.Control
	when     int // before which event the control comes
	crash    int // before which event the crash comes
	turn     int
	asked    bool
	running  map[dagrun.TaskID]int
}

func newOneControl(o *Odometer, spec dagrun.Spec) (*oneControl, error) {
	p, err := NewPair(spec, dagrun.Options{})
	if err != nil {
		return nil, err
	}
	h := &oneControl{Pair: p, o: o, running: map[dagrun.TaskID]int{}}
	failing := o.N(len(spec.Steps) + 1) // one task fails, or none
	for i := range spec.Steps {
		h.outcomes = append(h.outcomes, S)
		if i == failing {
			h.outcomes[i] = F
		}
	}
	kinds := []dagrun.Control{{Verb: dagrun.VerbCancel}, {Verb: dagrun.VerbCancel, Now: true}, {Verb: dagrun.VerbPause}, {Verb: dagrun.VerbRetry}}
	for i := range spec.Steps {
		id := dagrun.TaskID{Step: i}
		kinds = append(kinds, dagrun.Control{Verb: dagrun.VerbCancel, Task: &id}, dagrun.Control{Verb: dagrun.VerbPause, Task: &id},
			dagrun.Control{Verb: dagrun.VerbMark, Task: &id, As: dagrun.TaskSucceeded}, dagrun.Control{Verb: dagrun.VerbMark, Task: &id, As: dagrun.TaskSkipped})
	}
	h.control = kinds[o.N(len(kinds))]
	h.control.ID, h.control.By = 1, "ana"
	return h, nil
}

const lastTurn = 14 // more than any of these histories has events of its own

func (h *oneControl) play() error {
	h.when, h.crash = h.o.N(6), h.o.N(7)
	if err := h.step(dagrun.Event{Kind: dagrun.EvBegin}); err != nil {
		return err
	}
	for ; h.turn < 10*lastTurn; h.turn++ {
		over, err := h.takeTurn()
		if over || err != nil {
			return err
		}
	}
	return fmt.Errorf("the run does not end")
}

func (h *oneControl) takeTurn() (over bool, err error) {
	if h.turn == h.crash {
		return false, h.loseDrive()
	}
	if h.turn >= h.when && !h.asked && h.control.Verb != dagrun.VerbRetry {
		h.asked = true
		if err := h.step(dagrun.Event{Kind: dagrun.EvControl, Control: &h.control}); err != nil {
			return false, err
		}
	}
	ready, err := h.Commit()
	if err != nil {
		return false, err
	}
	for _, a := range ready.Actions {
		if a.Kind == dagrun.ActStart {
			h.running[a.Task] = a.Attempt
		}
	}
	if h.Core.Over() {
		return h.afterwards()
	}
	return false, h.next()
}

// next is a grant while there is something to grant, else the end of a body, else a resume.
func (h *oneControl) next() error {
	if ids := sortedIDs(h.offers); len(ids) > 0 {
		return h.step(dagrun.Event{Kind: dagrun.EvGranted, Task: ids[0]})
	}
	if ids := sortedIDs(h.running); len(ids) > 0 {
		id := ids[0]
		attempt := h.running[id]
		delete(h.running, id)
		r := outcomeOf(h.outcomes[id.Step])
		return h.step(dagrun.Event{Kind: dagrun.EvFinished, Task: id, Attempt: attempt, Result: &r})
	}
	return h.resume()
}

func (h *oneControl) resume() error {
	if h.control.Verb != dagrun.VerbPause {
		return nil
	}
	ct := dagrun.Control{ID: int64(100 + h.turn), Verb: dagrun.VerbResume, By: "bob", Task: h.control.Task}
	return h.step(dagrun.Event{Kind: dagrun.EvControl, Control: &ct})
}

// afterwards comes back after a park, retries a finished run once, or is done.
func (h *oneControl) afterwards() (over bool, err error) {
	switch {
	case !h.Kept.Run.State.Terminal():
		return false, h.comeBack(true)
	case h.control.Verb == dagrun.VerbRetry && !h.asked:
		h.asked = true
		h.Kept.Run.State = dagrun.RunQueued
		h.Kept.Run.Generation++
		h.control.Generation = h.Kept.Run.Generation
		h.crash = h.turn + 1 + h.when // the crash comes in the new generation
		return false, h.comeBack(false)
	}
	return true, nil
}

// loseDrive keeps none, some or all of what was about to be committed.
func (h *oneControl) loseDrive() error {
	ready, err := h.Ready()
	if err != nil {
		return err
	}
	if n := h.o.N(len(ready.Records.Tasks) + 2); n > len(ready.Records.Tasks) {
		h.Kept.Commit(ready.Records)
		if h.Kept.Run.State.Terminal() {
			_, err := h.afterwards()
			h.crash = -1
			return err
		}
	} else {
		h.Kept.CommitPrefix(ready.Records, n)
	}
	return h.comeBack(false)
}

// comeBack is the next drive. A control that was asked and not decided is asked again.
func (h *oneControl) comeBack(resume bool) error {
	h.running = map[dagrun.TaskID]int{}
	if err := h.Restore(); err != nil {
		return err
	}
	if _, decided := h.Kept.Decided[1]; h.asked && !decided {
		if err := h.step(dagrun.Event{Kind: dagrun.EvControl, Control: &h.control}); err != nil {
			return err
		}
	}
	if resume {
		if err := h.resume(); err != nil {
			return err
		}
	}
	return h.step(dagrun.Event{Kind: dagrun.EvBegin})
}

func (h *oneControl) step(ev dagrun.Event) error {
	ev.At = dagrun.Time(1_000 + h.turn)
	_, err := h.Step(ev)
	return err
}
