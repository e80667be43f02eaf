package coretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// metamorphicSeeds returns how many histories are played again, each in several ways.
func metamorphicSeeds() uint64 { return uint64(*histories) / 8 }

// TestReady_SameEventsSameOutcome plays the same events again. The decisions must be the same to the last byte, reasons
// and delays included.
func TestReady_SameEventsSameOutcome(t *testing.T) {
	t.Parallel()
	for seed := range metamorphicSeeds() {
		record := func() string {
			c := Seeded(seed)
			spec, opts := RandomSpec(c, 6)
			p, err := NewPlay(c, spec, opts)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			var all strings.Builder
			err = p.each(func() error {
				ready, _ := p.Core.Ready()
				text, err := json.Marshal(ready)
				all.Write(text)
				return err
			})
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, p.Story())
			}
			return all.String()
		}
		if a, b := record(), record(); a != b {
			t.Fatalf("seed %d:\n%s\n%s", seed, a, b)
		}
	}
}

// TestRestore_ChangesNothing loads a run after every commit. Every row must be as in the core that was not restored.
func TestRestore_ChangesNothing(t *testing.T) {
	t.Parallel()
	for seed := range metamorphicSeeds() {
		p := playOf(t, seed)
		err := p.each(func() error {
			if ready, _ := p.Core.Ready(); ready.Leave != nil {
				return nil // else the run would only park, again and again
			}
			if err := p.commit(); err != nil || p.Core.Over() {
				return err
			}
			return p.sameAfterRestore()
		})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, p.Story())
		}
	}
}

// sameAfterRestore compares stored rows. Whether a task is pending or ready is derived anew at EvBegin.
func (p *Play) sameAfterRestore() error {
	restored, err := dagrun.Restore(p.Graph, p.Opts, p.Kept.Saved())
	if err != nil {
		return err
	}
	for was := range p.Core.Tasks() {
		is, ok := restored.Task(was.ID)
		derived := func(s dagrun.State) bool { return s == dagrun.TaskPending || s == dagrun.TaskReady }
		was.Seq, is.Seq = 0, 0
		if derived(was.State) && derived(is.State) && was.Attempt == is.Attempt {
			continue
		}
		if !ok || !reflect.DeepEqual(was, is) {
			return fmt.Errorf("task %s\n  before %+v\n  after  %+v", p.Graph.TaskName(was.ID), was, is)
		}
	}
	return nil
}

// TestEarlyTick_ChangesNothing steps a tick before any timer is due.
func TestEarlyTick_ChangesNothing(t *testing.T) {
	t.Parallel()
	for seed := range metamorphicSeeds() {
		p := playOf(t, seed)
		err := p.each(func() error {
			before, _ := p.Core.Ready()
			at := p.now + 1
			if p.Core.Over() || (before.WakeAt != 0 && before.WakeAt <= at) || before.Leave != nil {
				return nil
			}
			p.now = at
			if err := p.step(dagrun.Event{Kind: dagrun.EvTick}); err != nil {
				return err
			}
			if after, _ := p.Core.Ready(); !reflect.DeepEqual(before, after) {
				return fmt.Errorf("an early tick\n  before %+v\n  after  %+v", before, after)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, p.Story())
		}
	}
}

// TestOrderAndNames_ChangeNothing plays a history again over the same steps in another order and with other names.
func TestOrderAndNames_ChangeNothing(t *testing.T) {
	t.Parallel()
	for seed := range metamorphicSeeds() {
		p := playOf(t, seed)
		if err := p.each(func() error { return nil }); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, p.Story())
		}
		if err := replayRenamed(seed, p); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, p.Story())
		}
	}
}

// replayRenamed plays the moves of a history on a core that has the same steps in another order and under other names.
func replayRenamed(seed uint64, p *Play) error {
	c := Seeded(seed)
	c.prefix = "other-"
	spec, opts := unlimited(RandomSpec(c, 6))
	order := Seeded(seed + 1).Shuffled(len(spec.Steps))
	place := make([]int, len(p.Spec.Steps)+len(p.Spec.Handlers)) // place in the other spec of each step of p
	shuffled := make([]dagrun.Step, len(order))
	for i := range place {
		place[i] = i
	}
	for i, to := range order {
		shuffled[to], place[i] = spec.Steps[i], to
	}
	spec.Steps = shuffled
	g, err := dagrun.Compile(spec)
	if err != nil {
		return err
	}
	kept, run := NewKept(), dagrun.New(g, opts)
	for n, m := range p.Moves {
		switch {
		case m.Restore:
			if run, err = dagrun.Restore(g, opts, kept.Saved()); err != nil {
				return err
			}
		case m.Event == nil:
			ready, _ := run.Ready()
			kept.Commit(ready.Records)
			run.Advance()
		default:
			if err := run.Step(moved(*m.Event, place)); (err == nil) != m.Taken {
				return fmt.Errorf("move %d: %s: the other answers %w", n, p.event(*m.Event), err)
			}
		}
	}
	return sameEnds(p, kept, place)
}

func moved(ev dagrun.Event, place []int) dagrun.Event {
	ev.Task.Step = place[ev.Task.Step]
	if ev.Control != nil && ev.Control.Task != nil {
		ct, id := *ev.Control, *ev.Control.Task
		id.Step = place[id.Step]
		ct.Task, ev.Control, ct.Decides = &id, &ct, slices.Clone(ct.Decides)
		for i, name := range ct.Decides {
			if !strings.HasPrefix(name, "@") {
				ct.Decides[i] = "other-" + name
			}
		}
	}
	return ev
}

func sameEnds(p *Play, other *Kept, place []int) error {
	if len(p.Kept.Tasks) != len(other.Tasks) || p.Kept.Run.State != other.Run.State {
		return errors.New("the other run ends otherwise")
	}
	for id, a := range p.Kept.Tasks {
		there := id
		there.Step = place[id.Step]
		b := other.Tasks[there]
		a.ID, a.Seq, a.Reason, b.ID, b.Seq, b.Reason = there, 0, "", there, 0, ""
		if !reflect.DeepEqual(a, b) {
			return fmt.Errorf("%s ends otherwise\n  one   %+v\n  other %+v", p.Graph.TaskName(id), a, b)
		}
	}
	return nil
}

// playOf returns a history without crash, retry or limits. Without these, places in a queue follow the order of the
// graph.
func playOf(t *testing.T, seed uint64) *Play {
	t.Helper()
	c := Seeded(seed)
	spec, opts := unlimited(RandomSpec(c, 6))
	p, err := NewPlay(c, spec, opts)
	if err != nil {
		t.Fatal(err)
	}
	p.safe, p.retries = true, 0
	return p
}

func unlimited(spec dagrun.Spec, opts dagrun.Options) (dagrun.Spec, dagrun.Options) {
	spec.MaxActive = 0
	for i := range spec.Steps {
		if f := spec.Steps[i].Foreach; f != nil {
			f.MaxConcurrent = 0
		}
	}
	return spec, opts
}

// each plays a history to its end and calls do between its moves.
func (p *Play) each(do func() error) error {
	if err := p.begin(); err != nil {
		return err
	}
	move := p.randomMove
	for n := range 3_000 {
		if n == 40 {
			move = p.calmMove
		}
		over, err := p.turn(move)
		if over || err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
	}
	return errors.New("the run does not come to an end")
}
