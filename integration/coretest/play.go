package coretest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Play is one random history of one run: a shell that performs what the core asks for, users, crashes, and stray events.
type Play struct {
	*Pair
	c   *Choices
	now dagrun.Time

	bodies    map[dagrun.TaskID]body // under way in this drive
	opens     map[dagrun.TaskID]int  // attempts with an ActOpen that is not answered
	probes    map[dagrun.TaskID]bool
	requests  []dagrun.Control // controls that were made and may be undecided
	lastID    int64
	retries   int  // how many more generations are allowed
	strangers bool // no user that sends a request may decide an approval
	safe      bool // there are no crashes
	torn      bool // the last crash cut a batch
}

type body struct {
	attempt         int
	publish, killed bool
}

// NewPlay starts a random history over a spec.
func NewPlay(c *Choices, spec dagrun.Spec, opts dagrun.Options) (*Play, error) {
	p, err := NewPair(spec, opts)
	if err != nil {
		return nil, err
	}
	pl := &Play{Pair: p, c: c, now: dagrun.Time(1_000), retries: c.N(3)}
	pl.forget()
	return pl, nil
}

// forget drops everything that the shell loses in a crash.
func (p *Play) forget() {
	p.bodies, p.opens, p.probes = map[dagrun.TaskID]body{}, map[dagrun.TaskID]int{}, map[dagrun.TaskID]bool{}
}

// Run plays so many random moves, then leads the run to its end with calm moves. It returns an error if core and model
// disagree or if the run does not end.
func (p *Play) Run(moves int) error {
	if err := p.begin(); err != nil {
		return err
	}
	for i := 0; i < moves && !p.c.Done(); i++ {
		if over, err := p.turn(p.randomMove); over || err != nil {
			return err
		}
	}
	for range 3_000 {
		if over, err := p.turn(p.calmMove); over || err != nil {
			return err
		}
	}
	return errors.New("the run does not come to an end")
}

// turn makes a move, sometimes commits, and ends the drive if it is over.
func (p *Play) turn(move func() error) (over bool, err error) {
	if !p.safe && p.c.OneIn(24) {
		return false, p.crash()
	}
	if !p.Core.Over() && (p.c.Done() || p.c.N(3) > 0) {
		if err := p.commit(); err != nil {
			return false, err
		}
	}
	if !p.Core.Over() {
		return false, move()
	}
	if !p.Kept.Run.State.Terminal() {
		p.Stats.Parks++
		if err := p.comeBack(); err != nil || !p.c.Done() {
			return false, err
		}
		return false, p.calmMove() // a random move would only park the run again
	}
	p.Stats.Verdicts++
	if p.retries == 0 {
		return true, nil
	}
	p.retries--
	return false, p.nextGeneration()
}

func (p *Play) commit() error {
	ready, err := p.Commit()
	if err != nil {
		return err
	}
	p.requests = slices.DeleteFunc(p.requests, func(ct dagrun.Control) bool {
		_, decided := p.Kept.Decided[ct.ID]
		return decided
	})
	for _, a := range ready.Actions {
		p.perform(a)
	}
	for _, t := range ready.Records.Tasks {
		if t.Growth != nil {
			p.Stats.Grown++
		}
		if t.State == dagrun.TaskReplaced {
			p.Stats.Replaced++
		}
		if t.State == dagrun.TaskRetrying {
			p.Stats.Retries++
		}
		if t.ResetBy > 0 && t.State == dagrun.TaskPending {
			p.Stats.Resets++
		}
	}
	return nil
}

func (p *Play) perform(a dagrun.Action) {
	switch a.Kind {
	case dagrun.ActStart:
		p.bodies[a.Task] = body{attempt: a.Attempt, publish: a.Publish}
	case dagrun.ActOpen:
		p.opens[a.Task] = a.Attempt
	case dagrun.ActProbe:
		p.probes[a.Task] = true
	case dagrun.ActKill:
		if b, ok := p.bodies[a.Task]; ok && b.attempt == a.Attempt {
			b.killed = true
			p.bodies[a.Task] = b
		}
	}
}

func (p *Play) step(ev dagrun.Event) error {
	ev.At = p.now
	_, err := p.Step(ev)
	return err
}

// crash loses the drive: none, some or all of the last batch was stored, and none of its actions was performed.
func (p *Play) crash() error {
	p.Stats.Crashes++
	ready, err := p.Ready()
	if err != nil {
		return err
	}
	n := len(ready.Records.Tasks)
	switch p.c.N(3) {
	case 0:
		p.logf("crash")
	case 1:
		n = p.c.N(n + 1)
		p.logf("crash after %d of %d rows", n, len(ready.Records.Tasks))
		p.Stats.Prefixes++
		p.Kept.CommitPrefix(ready.Records, n)
		p.torn = true
	default:
		p.logf("crash after the commit")
		p.Kept.Commit(ready.Records)
	}
	if p.Kept.Run.State.Terminal() || p.Kept.Run.State == dagrun.RunWaiting || p.Kept.Run.State == dagrun.RunPaused {
		p.Kept.Run.State = cmp.Or(p.Kept.Run.State, dagrun.RunWaiting)
	}
	if p.Kept.Run.State.Terminal() {
		if p.retries == 0 {
			p.retries = 1
		}
		p.retries--
		return p.nextGeneration()
	}
	return p.comeBack()
}

// comeBack begins the next drive. Controls that are not decided are stepped again, before or after its begin.
func (p *Play) comeBack() error {
	p.forget()
	if err := p.Restore(); err != nil {
		return err
	}
	resets := map[int64]bool{}
	for _, t := range p.Kept.Tasks {
		resets[t.ResetBy] = true
	}
	p.requests = slices.DeleteFunc(p.requests, func(ct dagrun.Control) bool {
		_, decided := p.Kept.Decided[ct.ID]
		return decided
	})
	p.now += dagrun.Time(p.c.N(4) * 20_000)
	if p.c.Done() {
		p.now = max(p.now, p.Kept.Run.WakeAt)
	}
	if err := p.begin(); err != nil {
		return err
	}
	ready, err := p.Ready()
	for _, d := range ready.Records.Controls {
		if d.Outcome == dagrun.Refused && resets[d.ID] {
			return fmt.Errorf("control %d is refused, although it has reset a task that is stored: %s", d.ID, d.Message)
		}
	}
	return err
}

func (p *Play) begin() error {
	givesUp := p.Kept.Run.StartedAt != 0 && p.c.OneIn(12) && !p.torn && !slices.ContainsFunc(p.requests, isRetry)
	p.torn = false
	for _, id := range sortedIDs(p.Kept.Tasks) {
		t := p.Kept.Tasks[id]
		if !givesUp && t.State == dagrun.TaskRunning && t.Attempt > 0 && p.c.OneIn(6) {
			r := dagrun.Result{Outputs: `{"settled":1}`}
			if err := p.step(dagrun.Event{Kind: dagrun.EvSettled, Task: id, Attempt: t.Attempt, Result: &r}); err != nil {
				return err
			}
		}
	}
	if givesUp {
		if err := p.step(dagrun.Event{Kind: dagrun.EvDriveLimit, Text: "gave up after too many lost drives"}); err != nil {
			return err
		}
	}
	for _, ct := range p.requests {
		if ct.Verb == dagrun.VerbRetry || ct.Verb == dagrun.VerbMark || (!givesUp && p.c.OneIn(2)) {
			if err := p.step(dagrun.Event{Kind: dagrun.EvControl, Control: &ct}); err != nil {
				return err
			}
		}
	}
	if p.Kept.Run.StartedAt == 0 && !givesUp && p.c.OneIn(20) {
		if err := p.step(dagrun.Event{Kind: dagrun.EvRefuse, Text: "bad params"}); err != nil {
			return err
		}
	}
	if err := p.step(dagrun.Event{Kind: dagrun.EvBegin}); err != nil {
		return err
	}
	for _, ct := range p.requests {
		if err := p.step(dagrun.Event{Kind: dagrun.EvControl, Control: &ct}); err != nil {
			return err
		}
	}
	return nil
}

func isRetry(ct dagrun.Control) bool { return ct.Verb == dagrun.VerbRetry }

// nextGeneration retries a finished run, as a store does.
func (p *Play) nextGeneration() error {
	p.Stats.Generations++
	p.Kept.Run.State = dagrun.RunQueued
	p.Kept.Run.Generation = max(1, p.Kept.Run.Generation) + 1
	ct := dagrun.Control{Verb: dagrun.VerbRetry, By: "ana", Generation: p.Kept.Run.Generation, Mode: dagrun.RetryMode(p.c.N(4))}
	if ct.Mode == dagrun.RetryFrom || ct.Mode == dagrun.RetryStep {
		id := Pick(p.c, sortedIDs(p.Kept.Tasks)...)
		id.Alt = 0
		ct.Task = &id
	}
	p.request(ct)
	return p.comeBack()
}

func (p *Play) request(ct dagrun.Control) dagrun.Control {
	if p.lastID%2 == 0 && !p.strangers {
		for _, s := range slices.Concat(p.Spec.Steps, p.Spec.Handlers) {
			ct.Decides = append(ct.Decides, s.Name) // the user is an approver or an operator
		}
	}
	p.lastID++
	ct.ID = p.lastID
	p.requests = append(p.requests, ct)
	p.Stats.Controls++
	if ct.Verb == dagrun.VerbRetry && ct.Generation == 0 {
		p.Stats.Live++
	}
	return ct
}

func sortedIDs[V any](m map[dagrun.TaskID]V) []dagrun.TaskID {
	return slices.SortedFunc(maps.Keys(m), func(a, b dagrun.TaskID) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Alt, b.Alt))
	})
}

// calmMove leads to an end: it grants, answers, resumes and finishes everything.
func (p *Play) calmMove() error {
	p.now += 100
	if p.Kept.Run.PausedBy != "" || p.Model.run.PausedBy != "" {
		return p.ask(dagrun.Control{Verb: dagrun.VerbResume, By: "bob"})
	}
	switch {
	case len(p.bodies) > 0:
		return p.bodyMoves()
	case len(p.opens) > 0 || len(p.probes) > 0:
		return p.answer()
	}
	for t := range p.Core.Tasks() {
		id := t.ID
		switch {
		case t.State == dagrun.TaskPaused:
			return p.ask(dagrun.Control{Verb: dagrun.VerbResume, By: "bob", Task: &id})
		case t.State == dagrun.TaskWaiting && t.AttemptAt != 0 && (p.c.Done() || p.c.OneIn(2)):
			if err := p.endWait(t); err != nil {
				return err
			}
		}
	}
	ready, err := p.Ready()
	if err != nil {
		return err
	}
	if ids := sortedIDs(p.offered(ready)); len(ids) > 0 {
		return p.step(dagrun.Event{Kind: dagrun.EvGranted, Task: Pick(p.c, ids...)})
	}
	p.now = max(p.now, ready.WakeAt)
	return p.step(dagrun.Event{Kind: dagrun.EvTick})
}

// endWait ends a wait: for a timer, a child run or a decision.
func (p *Play) endWait(t dagrun.TaskRecord) error {
	id := t.ID
	switch p.Core.Spec(id).Body {
	case dagrun.BodyApproval:
		return p.ask(dagrun.Control{Verb: dagrun.VerbApprove, By: "bob", Task: &id})
	case dagrun.BodyChild:
		return p.ask(dagrun.Control{Verb: dagrun.VerbChildEnded, Task: &id, Ref: t.Ref, Result: &dagrun.Result{}})
	case dagrun.BodyWait:
		return p.step(dagrun.Event{Kind: dagrun.EvFinished, Task: id, Attempt: t.Attempt, Result: &dagrun.Result{}})
	}
	return nil
}

func (p *Play) ask(ct dagrun.Control) error {
	ct = p.request(ct)
	return p.step(dagrun.Event{Kind: dagrun.EvControl, Control: &ct})
}
