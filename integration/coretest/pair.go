package coretest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Pair drives a core and a model through the same events, and reports where they disagree.
type Pair struct {
	Graph *dagrun.Graph
	Spec  dagrun.Spec
	Opts  dagrun.Options
	Core  *dagrun.Run
	Model *Model
	Kept  *Kept
	Log   []string // what happened, for people to read
	Stats *Stats
	Moves []Move

	begun  bool
	offers map[dagrun.TaskID]bool // wants of the core at the last commit that were not granted since
}

// Move is one thing that was done to a core: an event, a commit, or a restore.
type Move struct {
	Event   *dagrun.Event
	Taken   bool
	Restore bool
}

// Stats count what happened over many histories.
type Stats struct {
	Events, Commits, Crashes, Prefixes, Verdicts, Generations, Parks, Retries, Grown, Replaced, Controls, Refusals, Held, Unstarted, Live, Resets int
}

// NewPair starts a run.
func NewPair(spec dagrun.Spec, opts dagrun.Options) (*Pair, error) {
	g, err := dagrun.Compile(spec)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	p := &Pair{Graph: g, Spec: spec, Opts: opts, Kept: NewKept(), Stats: &Stats{}}
	p.Core, p.Model, p.offers = dagrun.New(g, opts), NewModel(spec, opts), map[dagrun.TaskID]bool{}
	return p, nil
}

func (p *Pair) logf(format string, args ...any) { p.Log = append(p.Log, fmt.Sprintf(format, args...)) }

// Step hands an event to both. The bool reports whether they accepted it.
func (p *Pair) Step(ev dagrun.Event) (bool, error) {
	p.Stats.Events++
	coreErr := p.Core.Step(ev)
	modelErr := p.Model.Step(ev)
	p.logf("%s → %v", p.event(ev), coreErr)
	p.Moves = append(p.Moves, Move{Event: &ev, Taken: coreErr == nil})
	if !errors.Is(sentinel(coreErr), sentinel(modelErr)) {
		return false, fmt.Errorf("the core answers %w, the model %w", coreErr, modelErr)
	}
	if coreErr == nil {
		p.begun = p.begun || ev.Kind == dagrun.EvBegin
		if ev.Kind == dagrun.EvGranted {
			delete(p.offers, ev.Task)
		}
	}
	if !p.begun {
		return coreErr == nil, nil
	}
	return coreErr == nil, p.compareTasks()
}

func sentinel(err error) error {
	switch {
	case errors.Is(err, dagrun.ErrStale), errors.Is(err, dagrun.ErrEvent):
		return dagrun.ErrStale // either of the two errors is right
	case errors.Is(err, dagrun.ErrOver):
		return dagrun.ErrOver
	}
	return err
}

// Ready returns what the core wants done, after a comparison with the model.
func (p *Pair) Ready() (dagrun.Ready, error) {
	ready, _ := p.Core.Ready()
	if again, _ := p.Core.Ready(); !reflect.DeepEqual(ready, again) {
		return ready, fmt.Errorf("Ready twice\n  first  %+v\n  second %+v", ready, again)
	}
	return ready, p.compareReady(ready)
}

// Commit stores the records and acknowledges them.
func (p *Pair) Commit() (dagrun.Ready, error) {
	ready, err := p.Ready()
	if err != nil {
		return ready, err
	}
	p.Stats.Commits++
	p.Kept.Commit(ready.Records)
	if err := errors.Join(p.Kept.toldTwice(), p.Kept.misasked(p.Core)); err != nil {
		return ready, err
	}
	p.offers = p.offered(ready)
	p.logf("commit %d rows, %d actions, %d wants", len(ready.Records.Tasks), len(ready.Actions), len(ready.Wants))
	p.Moves = append(p.Moves, Move{})
	p.Core.Advance()
	p.Model.Advance()
	if p.Core.Over() != p.Model.left {
		return ready, fmt.Errorf("over: the core says %v, the model %v", p.Core.Over(), p.Model.left)
	}
	return ready, nil
}

// offered returns all wants that are out after a Ready.
func (p *Pair) offered(ready dagrun.Ready) map[dagrun.TaskID]bool {
	out := maps.Clone(p.offers)
	for _, id := range ready.Drops {
		delete(out, id)
	}
	for _, w := range ready.Wants {
		out[w.Task] = true
	}
	return out
}

// Restore discards core and model and loads them from the store.
func (p *Pair) Restore() error {
	saved := p.Kept.Saved()
	p.Moves = append(p.Moves, Move{Restore: true})
	p.Opts.Generation = max(1, saved.Run.Generation)
	core, err := dagrun.Restore(p.Graph, p.Opts, saved)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	p.Core, p.Model, p.begun, p.offers = core, RestoreModel(p.Spec, p.Opts, saved), false, map[dagrun.TaskID]bool{}
	return nil
}

// event prints an event.
func (p *Pair) event(ev dagrun.Event) string {
	s := fmt.Sprintf("%d %s", ev.At, ev.Kind)
	switch ev.Kind {
	case dagrun.EvGranted, dagrun.EvStarted, dagrun.EvFinished, dagrun.EvWaits, dagrun.EvProbed, dagrun.EvLost, dagrun.EvSettled:
		s += fmt.Sprintf(" %s#%d until=%d ref=%s", p.Graph.TaskName(ev.Task), ev.Attempt, ev.Until, ev.Ref)
	}
	if ev.Result != nil {
		s += fmt.Sprintf(" %+v", *ev.Result)
	}
	if ct := ev.Control; ct != nil {
		s += fmt.Sprintf(" %s id=%d now=%v mode=%s as=%s", ct.Verb, ct.ID, ct.Now, ct.Mode, ct.As)
		if ct.Task != nil {
			s += " " + p.Graph.TaskName(*ct.Task)
		}
	}
	return s
}

// Story returns the whole history, for a failing test.
func (p *Pair) Story() string {
	var b []byte
	for _, s := range slices.Concat(p.Spec.Steps, p.Spec.Handlers) {
		b = fmt.Appendf(b, "%s\n", describe(s))
	}
	b = fmt.Appendf(b, "max_active=%d fail_fast=%v timeout=%d precomputed=%v\n", p.Spec.MaxActive, p.Spec.FailFast, p.Spec.Timeout, p.Opts.Precomputed)
	for _, l := range p.Log {
		b = fmt.Appendf(b, "  %s\n", l)
	}
	return string(b)
}

func describe(s dagrun.Step) string {
	out := fmt.Sprintf("%s <- %v %s body=%s", s.Name, s.Depends, s.Rule, s.Body)
	add := func(yes bool, format string, args ...any) {
		if yes {
			out += fmt.Sprintf(" "+format, args...)
		}
	}
	add(s.When != nil, "when=%v", s.When)
	add(s.WhenPerItem, "per item")
	add(s.Foreach != nil, "foreach=%+v", s.Foreach)
	add(s.Result != nil, "result=%+v", s.Result)
	add(s.Reserved(), "approvers=%v", s.Approval)
	add(s.CacheKey != nil, "cache=%v", s.CacheKey)
	add(s.Publish, "publish=%v/%d", s.PublishPools, s.PublishTimeout)
	add(s.Priority != 0 || s.PriorityExpr != nil, "priority=%d/%v", s.Priority, s.PriorityExpr)
	add(s.Timeout != 0, "timeout=%d", s.Timeout)
	add(s.Retry.Limit > 0, "retry=%+v", s.Retry)
	add(s.ContinueOn.Failed || s.ContinueOn.Skipped || s.ContinueOn.ExitCodes != nil, "continue_on=%+v", s.ContinueOn)
	add(s.SkipExit != nil, "skip_exit=%v", s.SkipExit)
	add(s.OnLost != 0, "on_lost=%s", s.OnLost)
	for _, r := range s.OnError {
		out += fmt.Sprintf("\n    on_error when=%v %s", r.When, r.Do)
		for _, w := range r.With {
			out += "\n        with " + describe(w)
			if w.Foreach != nil {
				out += fmt.Sprintf(" foreach=%v/%d", w.Foreach.Items, w.Foreach.MaxItems)
			}
		}
		if r.Ask != nil {
			out += "\n        ask " + describe(*r.Ask)
		}
	}
	return out
}
