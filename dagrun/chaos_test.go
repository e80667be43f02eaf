package dagrun

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// chaos drives a run with random events, crashes and refused commits.
type chaos struct {
	testing.TB
	rnd       *rand.Rand
	g         *Graph
	o         Options
	run       *Run
	now       Time
	rows      map[TaskID]TaskRecord
	row       RunRecord
	pending   map[int64]*Control // not decided
	nextID    int64
	flying    map[TaskID]Action // bodies and publishes of this drive
	open      []Action
	wants     map[TaskID]bool
	drives    int
	cancelled bool
	log       []string
}

func (c *chaos) logf(format string, args ...any) { c.log = append(c.log, fmt.Sprintf(format, args...)) }

func (c *chaos) event(e Event) error {
	e.At = c.now
	err := c.run.Step(e)
	c.logf("%d %s %s #%d %v", e.At, e.Kind, c.g.TaskName(e.Task), e.Attempt, err)
	if e.Control != nil {
		c.logf("   %+v", *e.Control)
	}
	if e.Result != nil {
		c.logf("   %+v", *e.Result)
	}
	checkRun(c, c.run)
	return err
}

func (c *chaos) crash() {
	c.logf("--- new drive: %+v", c.row)
	s := Saved{Run: c.row, Tasks: slices.Collect(maps.Values(c.rows))}
	run, err := Restore(c.g, c.o, s)
	if err != nil {
		c.Fatal(err)
	}
	c.run, c.flying, c.open, c.wants = run, map[TaskID]Action{}, nil, map[TaskID]bool{}
	c.drives++
	checkRun(c, run)
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		c.event(Event{Kind: EvControl, Control: c.pending[id]})
	}
	if c.drives > 3 && c.rnd.IntN(3) == 0 {
		c.event(Event{Kind: EvDriveLimit})
	}
	c.event(Event{Kind: EvBegin})
}

func (c *chaos) store(ready Ready, tasks int) {
	for _, row := range ready.Records.Tasks[:tasks] {
		if old, ok := c.rows[row.ID]; ok && old.State.Terminal() && old.Generation == row.Generation && (row.State != old.State) {
			c.Fatalf("%s was %s, is %s", c.g.TaskName(row.ID), old.State, row.State)
		}
		c.rows[row.ID] = row
	}
}

// turn is one round of the driver's loop.
func (c *chaos) turn() {
	ready, ok := c.run.Ready()
	if again, _ := c.run.Ready(); fmt.Sprint(again) != fmt.Sprint(ready) {
		c.Fatal("Ready changes something")
	}
	if ok && c.rnd.IntN(20) == 0 {
		c.store(ready, c.rnd.IntN(len(ready.Records.Tasks)+1))
		c.crash()
		return
	}
	if ok && c.rnd.IntN(6) > 0 {
		c.commit(ready)
		return
	}
	c.move(ready.WakeAt)
}

func (c *chaos) commit(ready Ready) {
	c.store(ready, len(ready.Records.Tasks))
	for _, row := range ready.Records.Tasks {
		c.logf("   %s %s #%d %s %s", c.g.TaskName(row.ID), row.State, row.Attempt, row.Request, row.Reason)
	}
	if ready.Records.Run != nil {
		c.row = *ready.Records.Run
	}
	for _, d := range ready.Records.Controls {
		if p := c.pending[d.ID]; p.Verb == VerbCancel && p.Task == nil {
			c.cancelled = d.Outcome == Accepted
		}
		delete(c.pending, d.ID)
	}
	if ready.Result != nil && c.cancelled && ready.Result.State != RunCanceled {
		c.Fatalf("cancelled, and yet %+v", *ready.Result)
	}
	if l := ready.Leave; l != nil && !l.Drained && l.WakeAt == 0 {
		c.checkParked()
	}
	for _, id := range ready.Drops {
		delete(c.wants, id)
	}
	for _, w := range ready.Wants {
		c.wants[w.Task] = true
	}
	actions := slices.Clone(ready.Actions)
	c.run.Advance()
	for _, a := range actions {
		c.perform(a)
	}
}

// checkParked sees that somebody will wake a run that parks without a time.
func (c *chaos) checkParked() {
	if c.run.rec.PausedBy != "" {
		return
	}
	for t := range c.run.Tasks() {
		if t.State == TaskWaiting || t.State == TaskPaused {
			return
		}
	}
	c.Fatal("parked for ever")
}

func (c *chaos) perform(a Action) {
	c.logf("   %s %s #%d", a.Kind, c.g.TaskName(a.Task), a.Attempt)
	switch a.Kind {
	case ActStart:
		if old, twice := c.flying[a.Task]; twice {
			c.Fatalf("start of %+v while %+v", a, old)
		}
		c.flying[a.Task] = a
	case ActOpen, ActProbe:
		c.open = append(c.open, a)
	case ActCancelChild:
		c.ask(&Control{Verb: VerbChildEnded, Task: &a.Task, Ref: a.Ref, Result: &Result{Kind: KindChild}})
	}
}

func (c *chaos) ask(control *Control) {
	c.nextID++
	control.ID = c.nextID
	c.pending[control.ID] = control
	c.event(Event{Kind: EvControl, Control: control})
}

func (c *chaos) result() *Result {
	results := []Result{{}, {}, {}, exit3, {Kind: KindConfig}, {Kind: KindSignal, Signal: 9}, {SnoozeUntil: c.now + 10}}
	res := results[c.rnd.IntN(len(results))]
	return &res
}

// move does one random thing that the world may do.
func (c *chaos) move(wakeAt Time) {
	switch k := c.rnd.IntN(20); {
	case k < 4 && len(c.wants) > 0:
		id := c.one(c.wants)
		delete(c.wants, id)
		c.event(Event{Kind: EvGranted, Task: id})
	case k < 12 && len(c.flying) > 0:
		ids := map[TaskID]bool{}
		for id := range c.flying {
			ids[id] = true
		}
		id := c.one(ids)
		a := c.flying[id]
		if c.rnd.IntN(3) == 0 {
			c.event(Event{Kind: EvStarted, Task: id, Attempt: a.Attempt})
			return
		}
		delete(c.flying, id)
		if c.rnd.IntN(10) == 0 {
			c.event(Event{Kind: EvLost, Task: id, Attempt: a.Attempt})
			return
		}
		if err := c.event(Event{Kind: EvFinished, Task: id, Attempt: a.Attempt, Result: c.result()}); err != nil && !c.run.Over() && c.run.rec.Ending != EndingRefused {
			c.Fatalf("end of %+v: %v", a, err)
		}
	case k < 15 && len(c.open) > 0:
		c.answer()
	case k < 17 && wakeAt != 0:
		c.now = max(c.now, wakeAt)
		c.event(Event{Kind: EvTick})
	case k < 18:
		c.control()
	case k < 19 && c.rnd.IntN(30) == 0:
		c.event(Event{Kind: EvDrain})
	default:
		c.now += Time(c.rnd.IntN(1000))
	}
}

func (c *chaos) one(set map[TaskID]bool) TaskID {
	ids := slices.SortedFunc(maps.Keys(set), func(a, b TaskID) int {
		return inOrder(c.run.find(a), c.run.find(b))
	})
	return ids[c.rnd.IntN(len(ids))]
}

func (c *chaos) answer() {
	a := c.open[0]
	c.open = c.open[1:]
	if a.Kind == ActOpen && c.run.find(a.Task).place != opening {
		return
	}
	if a.Kind == ActProbe {
		var hit *Result
		if c.rnd.IntN(2) == 0 {
			hit = c.result()
		}
		c.event(Event{Kind: EvProbed, Task: a.Task, Result: hit})
		return
	}
	e := Event{Kind: EvWaits, Task: a.Task, Attempt: a.Attempt}
	switch {
	case c.run.Spec(a.Task).Body == BodyChild:
		e.Ref = "child"
	case c.rnd.IntN(2) == 0:
		e.Until = c.now + Time(c.rnd.IntN(60_000))
	default:
		e.Kind, e.Result = EvFinished, c.result()
	}
	c.event(e)
}

// helpful is what ends a run that waits for people.
func (c *chaos) helpful() {
	for t := range c.run.Tasks() {
		id := t.ID
		switch {
		case t.State == TaskPaused:
			c.ask(&Control{Verb: VerbResume, Task: &id})
		case t.State == TaskWaiting && c.run.Spec(id).Body == BodyApproval:
			c.ask(&Control{Verb: VerbApprove, Task: &id})
		case t.State == TaskWaiting && c.run.Spec(id).Body == BodyChild:
			c.ask(&Control{Verb: VerbChildEnded, Task: &id, Ref: t.Ref, Result: c.result()})
		case t.State == TaskWaiting && t.NextAt == 0:
			c.event(Event{Kind: EvFinished, Task: id, Attempt: t.Attempt, Result: &Result{}})
		default:
			continue
		}
		return
	}
	if c.run.rec.PausedBy != "" {
		c.ask(&Control{Verb: VerbResume})
	}
}

func (c *chaos) control() {
	if c.rnd.IntN(2) == 0 {
		c.helpful()
		return
	}
	if c.rnd.IntN(3) > 0 {
		return
	}
	if c.rnd.IntN(4) == 0 {
		c.ask(&Control{Verb: []Verb{VerbCancel, VerbPause, VerbResume}[c.rnd.IntN(3)], By: "ana", Now: c.rnd.IntN(4) == 0})
		return
	}
	var ids []TaskID
	for t := range c.run.Tasks() {
		ids = append(ids, t.ID)
	}
	id := ids[c.rnd.IntN(len(ids))]
	verbs := []Verb{VerbCancel, VerbPause, VerbResume, VerbApprove, VerbReject, VerbMark}
	c.ask(&Control{Verb: verbs[c.rnd.IntN(len(verbs))], Task: &id, By: "bo", As: TaskSucceeded + State(c.rnd.IntN(3))})
}

func TestChaos_EveryRunEndsAndAddsUp(t *testing.T) {
	t.Parallel()
	seeds := 3000
	if n, err := strconv.Atoi(os.Getenv("CHAOS")); err == nil {
		seeds = n
	}
	if testing.Short() {
		seeds = 300
	}
	verdicts := map[RunState]int{}
	for seed := range seeds {
		verdicts[runChaos(t, uint64(seed))]++
	}
	t.Log(verdicts)
}

func runChaos(t *testing.T, seed uint64) RunState {
	c := newChaos(t, seed)
	defer func() {
		p := recover()
		if p != nil || t.Failed() {
			for _, line := range c.log {
				t.Log(line)
			}
			t.Logf("seed %d", seed)
		}
		if p != nil {
			panic(p)
		}
	}()
	for range 20_000 {
		if c.row.State.Terminal() {
			if c.rnd.IntN(3) > 0 || c.row.Generation > 3 {
				return c.row.State
			}
			c.again()
			continue
		}
		if c.run.Over() {
			c.crash()
			c.helpful()
			continue
		}
		c.turn()
	}
	t.Errorf("no end")
	return c.row.State
}

func newChaos(t *testing.T, seed uint64) *chaos {
	rnd := rand.New(rand.NewPCG(seed, 0))
	g, err := Compile(dice{rnd}.spec())
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{
		TB: t, rnd: rnd, g: g, run: New(g, Options{}), now: 1000, rows: map[TaskID]TaskRecord{},
		pending: map[int64]*Control{}, flying: map[TaskID]Action{}, wants: map[TaskID]bool{},
	}
	c.row = RunRecord{State: RunQueued, Generation: 1}
	c.event(Event{Kind: EvBegin})
	return c
}

// again retries a finished run.
func (c *chaos) again() {
	c.row.State = RunQueued
	c.row.Generation++
	c.nextID++
	id := TaskID{Step: c.rnd.IntN(c.g.plain)}
	c.pending[c.nextID] = &Control{ID: c.nextID, Verb: VerbRetry, Mode: RetryMode(c.rnd.IntN(4)), Generation: c.row.Generation, Task: &id}
	c.drives, c.cancelled = 0, false
	c.crash()
}
