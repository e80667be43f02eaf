package enumerate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// ending is how a drive ended.
type ending int

const (
	goesOn ending = iota
	crashed
	parked
	finished
)

const mostMoves = 100 // moves of one drive, at most

// drive is one driver's part of a history, from a stored state.
type drive struct {
	*Case
	s       stored
	choices *odometer
	run     *dagrun.Run
	flying  [mostTasks]int // number of the attempt under way, by task
	killed  [mostTasks]bool
	log     []entry
}

// entry is a line of the story. It is put into words only when a history fails.
type entry struct {
	what string
	args []any
}

func (d *drive) note(what string, args ...any) { d.log = append(d.log, entry{what, args}) }

func (d *drive) story() string {
	var b strings.Builder
	for _, e := range d.log {
		fmt.Fprintf(&b, "  "+e.what+"\n", e.args...)
	}
	return b.String()
}

func (d *drive) pick(n int) int {
	if n < 2 {
		return 0
	}
	return d.choices.N(n)
}

func (d *drive) step(e dagrun.Event) error {
	e.At = 1
	if err := d.run.Step(e); err != nil {
		return fmt.Errorf("%s %s: %w", e.Kind, d.graph.TaskName(e.Task), err)
	}
	return nil
}

func (d *drive) play() (ending, error) {
	if err := d.begin(); err != nil {
		return goesOn, err
	}
	for range mostMoves {
		if end, err := d.move(); end != goesOn || err != nil {
			return end, err
		}
	}
	return goesOn, errors.New("the drive does not end")
}

// begin takes the run up, and hands in the controls that are not decided.
func (d *drive) begin() error {
	var err error
	d.note("drive")
	if d.run, err = dagrun.Restore(d.graph, dagrun.Options{Generation: d.s.run.Generation}, d.s.saved()); err != nil {
		return err
	}
	for n := range d.s.asked {
		if d.s.answers[n] == "" {
			if err := d.control(n); err != nil {
				return err
			}
		}
	}
	return d.step(dagrun.Event{Kind: dagrun.EvBegin})
}

func (d *drive) control(n int) error {
	ct := d.plan.control(n)
	d.note("%s", ct.Verb)
	return d.step(dagrun.Event{Kind: dagrun.EvControl, Control: &ct})
}

// move makes a control, performs an action that the core asks for, or ends a body.
func (d *drive) move() (ending, error) {
	if d.plan.mayAsk(&d.s) && d.pick(2) == 1 {
		d.s.asked++
		return goesOn, d.control(d.s.asked - 1)
	}
	ready, some := d.run.Ready()
	switch {
	case len(ready.Wants) > 0:
		return goesOn, d.grant(slices.Clone(ready.Wants))
	case some:
		return d.commit(ready)
	case ready.WakeAt == 1: // now
		return goesOn, d.step(dagrun.Event{Kind: dagrun.EvTick})
	}
	return goesOn, d.endBody()
}

func (d *drive) grant(wants []dagrun.Want) error {
	for _, w := range wants {
		d.note("granted %d", w.Task.Step)
		if err := d.step(dagrun.Event{Kind: dagrun.EvGranted, Task: w.Task}); err != nil {
			return err
		}
	}
	return nil
}

// commit stores a whole batch, unless a crash happens: before the batch, after some of its rows, or after all of it.
func (d *drive) commit(ready dagrun.Ready) (ending, error) {
	r := ready.Records
	pieces := len(r.Tasks) // rows that a crash may separate
	if r.Run != nil || len(r.Controls) > 0 {
		pieces++
	}
	ends := ready.Result != nil || ready.Leave != nil
	if d.s.crashes > 0 {
		ways := pieces + 1
		if !ends && pieces > 0 {
			ways++ // all is stored and nothing is done; after the end of a drive that is no crash
		} else if !ends {
			ways = 2
		}
		if way := d.pick(ways); way > 0 {
			return crashed, d.crash(r, way-1, pieces)
		}
	}
	d.note("commit:%v", rows(slices.Clone(r.Tasks)))
	if err := d.keep(&d.s, r, len(r.Tasks), true); err != nil {
		return goesOn, err
	}
	return d.perform(ready)
}

// rows print themselves when a history fails.
type rows []dagrun.TaskRecord

func (r rows) String() string {
	var b strings.Builder
	for _, t := range r {
		fmt.Fprintf(&b, " %d %s#%d", t.ID.Step, t.State, t.Attempt)
	}
	return b.String()
}

func (d *drive) crash(r dagrun.Records, kept, pieces int) error {
	d.s.crashes--
	d.note("crash after %d of %d pieces:%v", kept, pieces, rows(slices.Clone(r.Tasks)))
	return d.keep(&d.s, r, min(kept, len(r.Tasks)), kept == pieces)
}

func (d *drive) perform(ready dagrun.Ready) (ending, error) {
	actions := slices.Clone(ready.Actions)
	leaves := ready.Leave != nil
	d.run.Advance()
	if d.run.Over() {
		if leaves {
			return parked, nil
		}
		return finished, nil
	}
	for _, a := range actions {
		if err := d.act(a); err != nil {
			return goesOn, fmt.Errorf("%s %s#%d: %w", a.Kind, d.graph.TaskName(a.Task), a.Attempt, err)
		}
	}
	return goesOn, nil
}

func (d *drive) act(a dagrun.Action) error {
	i := a.Task.Step
	switch row := d.s.tasks[i]; {
	case a.Kind == dagrun.ActKill && d.flying[i] == a.Attempt:
		d.killed[i] = true
		return nil
	case a.Kind != dagrun.ActStart:
		return errors.New("nobody expects this")
	case row.State != dagrun.TaskRunning || row.Attempt != a.Attempt:
		return fmt.Errorf("what is stored is %s#%d", row.State, row.Attempt)
	case d.flying[i] != 0:
		return fmt.Errorf("attempt %d is under way", d.flying[i])
	}
	d.flying[i], d.killed[i] = a.Attempt, false
	return d.step(dagrun.Event{Kind: dagrun.EvStarted, Task: a.Task, Attempt: a.Attempt})
}

// endBody ends one of the bodies under way. A killed body may also end by itself before the kill.
func (d *drive) endBody() error {
	if err := d.nothingIdle(); err != nil {
		return err
	}
	var under []int
	for i, attempt := range d.flying {
		if attempt != 0 {
			under = append(under, i)
		}
	}
	if len(under) == 0 {
		return errors.New("nothing is under way and nothing is to be done")
	}
	if d.plan.oneOrder {
		under = under[:1]
	}
	i := under[d.pick(len(under))]
	res := d.result(i)
	d.note("body %d ends: %+v", i, *res)
	e := dagrun.Event{Kind: dagrun.EvFinished, Task: dagrun.TaskID{Step: i}, Attempt: d.flying[i], Result: res}
	d.flying[i] = 0
	return d.step(e)
}

func (d *drive) result(i int) *dagrun.Result {
	switch {
	case d.killed[i] && d.pick(2) == 0:
		return &dagrun.Result{Kind: dagrun.KindSignal, Signal: 15}
	case d.fails[i] && d.s.run.Generation == 1 && (!d.plan.live || d.s.tasks[i].ResetBy == 0):
		return &dagrun.Result{Kind: dagrun.KindExit, ExitCode: 3, HasExit: true}
	}
	return &dagrun.Result{HasExit: true}
}

// nothingIdle returns an error if a task that may run does not: slots are free, and no control holds it up.
func (d *drive) nothingIdle() error {
	if d.plan.first != nil {
		return nil
	}
	for i, ps := range d.parents {
		idle := d.flying[i] == 0 && !d.s.tasks[i].State.Terminal()
		for _, p := range ps {
			idle = idle && d.s.tasks[p].State == dagrun.TaskSucceeded
		}
		if idle {
			return fmt.Errorf("%s may run, and does not", d.graph.StepName(i))
		}
	}
	return nil
}
