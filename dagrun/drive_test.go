package dagrun

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// spec makes a Spec of lines like "c rule=one_success <- a, b:started". Names that begin with @ are handlers.
func spec(lines ...string) Spec {
	var s Spec
	for _, line := range lines {
		head, depends, _ := strings.Cut(line, "<-")
		words := strings.Fields(head)
		step := Step{Name: words[0]}
		for _, w := range words[1:] {
			setting(&step, w)
		}
		for d := range strings.SplitSeq(depends, ",") {
			if d = strings.TrimSpace(d); d != "" {
				parent, state, _ := strings.Cut(d, ":")
				e := Edge{Step: parent}
				if state != "" {
					e.State = must(ParseEdgeState(state))
				}
				step.Depends = append(step.Depends, e)
			}
		}
		if strings.HasPrefix(step.Name, "@") {
			s.Handlers = append(s.Handlers, step)
		} else {
			s.Steps = append(s.Steps, step)
		}
	}
	return s
}

func setting(s *Step, word string) {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "noop", "wait", "approval", "child":
		s.Body = must(ParseBody(key))
	case "rule":
		s.Rule = must(ParseRule(value))
	case "retry":
		s.Retry.Limit = len(value) // retry=xx is two retries
		s.Retry.Interval = 100
	case "publish":
		s.Publish, s.PublishPool = true, value
	case "continue":
		s.ContinueOn = ContinueOn{Failed: value == "failed", Skipped: value == "skipped"}
	case "timeout":
		s.Timeout = 1000
	case "onlost":
		s.OnLost = must(ParseOnLost(value))
	case "skip":
		s.SkipExit = []int{99}
	case "each":
		var items items
		for key := range strings.SplitSeq(value, "+") {
			items = append(items, Item{Key: key, Value: JSON(`"` + key + `"`)})
		}
		if value == "" {
			items = nil
		}
		s.Foreach = &Foreach{Items: items}
	case "when":
		s.When = truth(value == "true")
	case "replace":
		s.OnError = []ErrorRule{{Do: DoReplace, With: make([]Step, len(value))}}
	case "onerror":
		s.OnError = []ErrorRule{{Do: must(ParseDo(value))}}
	case "cache":
		s.CacheKey = text(value)
	default:
		panic("unknown word " + word)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type (
	items []Item
	truth bool
	text  string
)

func (i items) Expand(Scope) ([]Item, error) { return i, nil }
func (b truth) Eval(Scope) (bool, error)     { return bool(b), nil }
func (b truth) String() string               { return fmt.Sprint(bool(b)) }
func (s text) Text(Scope) (string, error)    { return string(s), nil }

// drive is a driver whose bodies end as scripted.
type drive struct {
	*testing.T
	g        *Graph
	run      *Run
	now      Time
	ends     map[string][]Result // by task, one per attempt; success when there are none left
	saved    map[TaskID]TaskRecord
	savedRun RunRecord
	log      []string // what happened, in order
	hand     bool     // bodies end by hand
	controls int64
	last     Ready
}

func newDrive(t *testing.T, s Spec, o Options) *drive {
	t.Helper()
	g, err := Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	d := &drive{T: t, g: g, run: New(g, o), now: 1000, ends: map[string][]Result{}, saved: map[TaskID]TaskRecord{}}
	return d
}

func (d *drive) id(name string) TaskID {
	d.Helper()
	id, err := d.g.ParseTask(name)
	if err != nil {
		d.Fatal(err)
	}
	return id
}

func (d *drive) step(e Event) {
	d.Helper()
	if e.At == 0 {
		e.At = d.now
	}
	d.now = max(d.now, e.At)
	if err := d.run.Step(e); err != nil {
		d.Fatalf("step %s of %s: %v", e.Kind, d.g.TaskName(e.Task), err)
	}
}

func (d *drive) refused(want error, e Event) {
	d.Helper()
	e.At = d.now
	if err := d.run.Step(e); !errors.Is(err, want) {
		d.Fatalf("step %s of %s: %v, want %v", e.Kind, d.g.TaskName(e.Task), err, want)
	}
}

func (d *drive) begin() *drive {
	d.Helper()
	d.step(Event{Kind: EvBegin})
	d.loop()
	return d
}

// loop commits, performs and goes on until nothing moves but time or the test.
func (d *drive) loop() {
	d.Helper()
	for range 1000 {
		ready, ok := d.run.Ready()
		if !ok {
			return
		}
		if len(ready.Wants) > 0 && !d.hand {
			for _, w := range slices.Clone(ready.Wants) {
				d.step(Event{Kind: EvGranted, Task: w.Task})
			}
			ready, _ = d.run.Ready()
		}
		d.commit(ready)
		actions := slices.Clone(ready.Actions)
		d.run.Advance()
		for _, a := range actions {
			d.perform(a)
		}
	}
	d.Fatal("no end")
}

func (d *drive) commit(ready Ready) {
	d.last = ready
	for _, row := range ready.Records.Tasks {
		d.saved[row.ID] = row
	}
	if ready.Records.Run != nil {
		d.savedRun = *ready.Records.Run
	}
	for _, c := range ready.Records.Controls {
		d.log = append(d.log, string(c.Outcome))
	}
	if ready.Result != nil {
		d.log = append(d.log, ready.Result.State.String()+": "+ready.Result.Reason)
	}
	if ready.Leave != nil {
		d.log = append(d.log, fmt.Sprintf("leave %+v", *ready.Leave))
	}
}

func (d *drive) perform(a Action) {
	d.Helper()
	name := d.g.TaskName(a.Task)
	if d.hand {
		d.log = append(d.log, a.Kind.String()+" "+name)
		return
	}
	if a.Kind != ActStart {
		return
	}
	if a.Publish {
		name += "!"
	} else {
		d.step(Event{Kind: EvStarted, Task: a.Task, Attempt: a.Attempt})
	}
	var res Result
	if ends := d.ends[name]; len(ends) > 0 {
		res, d.ends[name] = ends[0], ends[1:]
	}
	d.log = append(d.log, name)
	d.step(Event{Kind: EvFinished, Task: a.Task, Attempt: a.Attempt, Result: &res})
}

// crash forgets the run and restores it from what was committed.
func (d *drive) crash() {
	d.Helper()
	var s Saved
	s.Run = d.savedRun
	for _, row := range d.saved {
		s.Tasks = append(s.Tasks, row)
	}
	run, err := Restore(d.g, d.run.opts, s)
	if err != nil {
		d.Fatal(err)
	}
	d.run = run
}

// states prints all tasks.
func (d *drive) states() string {
	var out []string
	for row := range d.run.Tasks() {
		out = append(out, d.g.TaskName(row.ID)+"="+row.State.String())
	}
	return strings.Join(out, " ")
}

func (d *drive) want(states string) {
	d.Helper()
	if got := d.states(); got != states {
		d.Fatalf("states\n got %s\nwant %s\nlog  %s", got, states, strings.Join(d.log, ", "))
	}
}

func (d *drive) verdict(want string) {
	d.Helper()
	if len(d.log) == 0 || d.log[len(d.log)-1] != want {
		d.Fatalf("want %q at the end of %q", want, d.log)
	}
}

var (
	exit3  = Result{Kind: KindExit, ExitCode: 3, HasExit: true}
	exit99 = Result{Kind: KindExit, ExitCode: 99, HasExit: true}
)

// play drives a run by hand, one word and a task a move, and commits after each but those that end in a bar:
// "begin", "grant a", "start a", "end a", "exit3 a", "lost a", "tick 500", "cancel a", "crash", …
func (d *drive) play(moves ...string) {
	d.Helper()
	d.hand = true
	for _, move := range moves {
		open := strings.HasSuffix(move, " |")
		words := strings.Fields(strings.TrimSuffix(move, "|"))
		stale := words[0] == "stale"
		if stale {
			words = words[1:]
		}
		switch words[0] {
		case "crash":
			d.crash()
			continue
		case "again": // what the store does when a retry is asked for
			d.savedRun.State = RunQueued
			d.savedRun.Generation++
			continue
		}
		e := d.move(words)
		if stale {
			d.refused(ErrStale, e)
			continue
		}
		d.step(e)
		if !open {
			d.loop()
		}
	}
}

func (d *drive) move(words []string) Event {
	d.Helper()
	var e Event
	arg := ""
	if len(words) > 1 {
		arg = words[1]
	}
	if kind, ok := map[string]EventKind{"begin": EvBegin, "drain": EvDrain, "limit": EvDriveLimit}[words[0]]; ok {
		return Event{Kind: kind}
	}
	if words[0] == "refuse" {
		return Event{Kind: EvRefuse, Text: arg}
	}
	if words[0] == "tick" {
		return Event{Kind: EvTick, At: d.now + Time(must(strconv.Atoi(arg)))}
	}
	if verb, err := ParseVerb(words[0]); err == nil {
		return Event{Kind: EvControl, Control: d.control(verb, words[1:])}
	}
	e.Task = d.id(arg)
	row, _ := d.run.Task(e.Task)
	e.Attempt = row.Attempt
	switch words[0] {
	case "grant":
		e.Kind = EvGranted
	case "start":
		e.Kind = EvStarted
	case "end":
		e.Kind, e.Result = EvFinished, &Result{}
	case "exit3":
		e.Kind, e.Result = EvFinished, &Result{Kind: KindExit, ExitCode: 3, HasExit: true}
	case "snooze":
		e.Kind, e.Result = EvFinished, &Result{SnoozeUntil: d.now + 60_000}
	case "lost":
		e.Kind = EvLost
	case "settled":
		e.Kind, e.Result = EvSettled, &Result{}
	case "waits":
		e.Kind, e.Until = EvWaits, d.now+60_000
	case "named":
		e.Kind, e.Ref = EvWaits, "77"
	case "hit":
		e.Kind, e.Result = EvProbed, &Result{}
	case "miss":
		e.Kind = EvProbed
	default:
		d.Fatalf("no move %q", words[0])
	}
	return e
}

func (d *drive) control(verb Verb, words []string) *Control {
	d.controls++
	c := &Control{ID: d.controls, Verb: verb, By: "ana", Ref: "77", Generation: d.savedRun.Generation}
	if verb == VerbChildEnded {
		c.Result = &Result{}
	}
	for _, w := range words {
		if as, err := ParseState(w); err == nil {
			c.As = as
		} else if mode, err := ParseRetryMode(w); err == nil {
			c.Mode = mode
		} else if w == "now" {
			c.Now = true
		} else {
			id := d.id(w)
			c.Task = &id
		}
	}
	return c
}
