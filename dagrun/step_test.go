package dagrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The same events lead to the same decisions to the last byte, reasons and delays included.
func TestStep_SameEventsSameOutcome(t *testing.T) {
	t.Parallel()
	record := func(seed uint64) string {
		c := newChaos(t, seed)
		var all strings.Builder
		for range 300 {
			ready, _ := c.run.Ready()
			all.Write(must(json.Marshal(ready)))
			if c.run.Over() {
				break
			}
			c.turn()
		}
		return all.String()
	}
	for seed := range uint64(50) {
		if a, b := record(seed), record(seed); a != b {
			t.Fatalf("seed %d:\n%s\n%s", seed, a, b)
		}
	}
}

func TestStep_StaleEventsChangeNothing(t *testing.T) {
	t.Parallel()
	d := newDrive(t, spec("a retry=x", "b approval"), Options{})
	d.play("begin", "grant a")
	stale := []Event{
		{Kind: EvGranted},
		{Kind: EvFinished, Attempt: 2, Result: &Result{}},
		{Kind: EvLost, Attempt: 0},
		{Kind: EvProbed},
		{Kind: EvStarted, Attempt: 7},
		{Kind: EvWaits, Attempt: 1},
		{Kind: EvFinished, Task: d.id("b"), Attempt: 1, Result: &Result{}},
		{Kind: EvControl, Control: &Control{ID: 1}},
		{Kind: EvGranted, Task: TaskID{Step: 9}},
		{Kind: EvGranted, Task: TaskID{Item: "x"}},
	}
	d.play("pause b")
	before := fmt.Sprint(d.run.Ready())
	for _, e := range stale {
		e.At = d.now + 1_000_000
		if err := d.run.Step(e); !errors.Is(err, ErrStale) {
			t.Errorf("%s: %v", e.Kind, err)
		}
	}
	for _, e := range []Event{
		{Kind: EvBegin},
		{Kind: EvSettled},
		{Kind: EvDriveLimit},
		{Kind: EvControl},
		{Kind: EventKind(99)},
		{Kind: EvFinished, Attempt: 1},
	} {
		if err := d.run.Step(e); !errors.Is(err, ErrEvent) {
			t.Errorf("%s: %v", e.Kind, err)
		}
	}
	if after := fmt.Sprint(d.run.Ready()); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
}

// Whether a body ended in time is decided by when it ended, not by when the caller heard of it.
func TestStep_ABodyThatEndedInTimeHasNotTimedOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after Time
		want  string
	}{
		{999, "a=succeeded b=succeeded"},
		{1000, "a=failed b=upstream_failed"},
	} {
		d := newDrive(t, spec("a timeout=x", "b noop <- a"), Options{})
		d.play("begin", "grant a", "start a")
		started := d.now
		d.play("tick 5000")
		end := d.move([]string{"end", "a"})
		end.At = started + c.after
		d.step(end)
		d.loop()
		d.want(c.want)
	}
}

func TestStep_ABodyThatEndedBeforeItsRunTimedOutHasNot(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"a", "a timeout=x"} {
		for _, c := range []struct {
			after Time
			want  string
		}{
			{499, "a=succeeded"},
			{500, "a=failed"},
		} {
			s := spec(step)
			s.Timeout = 500
			d := newDrive(t, s, Options{})
			d.play("begin")
			began := d.now
			d.play("grant a", "start a", "tick 5000")
			end := d.move([]string{"end", "a"})
			end.At = began + c.after
			d.step(end)
			d.loop()
			d.want(c.want)
		}
	}
}

func TestStep_APublishThatEndedInTimeHasNotTimedOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after Time
		want  string
	}{
		{999, "a=succeeded"},
		{1000, "a=failed"},
	} {
		s := spec("a publish=")
		s.Steps[0].PublishTimeout = 1000
		d := newDrive(t, s, Options{})
		d.play("begin", "grant a", "start a", "end a", "start a")
		started := d.now
		d.play("tick 5000")
		end := d.move([]string{"end", "a"})
		end.At = started + c.after
		d.step(end)
		d.loop()
		d.want(c.want)
	}
}

// What was held up goes on as it would have in another drive: in the order of the graph.
func TestStep_WhatIsReleasedIsJudgedInTheOrderOfTheGraph(t *testing.T) {
	t.Parallel()
	s := spec("@init", "a noop", "b each=x+x", "c noop", "d noop")
	s.FailFast = true
	d := newDrive(t, s, Options{})
	d.play("begin", "grant @init", "end @init")
	d.want("a=succeeded b=failed c=canceled d=canceled @init=succeeded")
}

func TestStep_AfterTheEndIsOver(t *testing.T) {
	t.Parallel()
	d := newDrive(t, spec("a noop"), Options{})
	d.play("begin")
	d.refused(ErrOver, Event{Kind: EvTick})
	if _, ok := d.run.Ready(); ok || !d.run.Over() {
		t.Error("there is more to do")
	}
}

func TestAdvance_WithoutReadyLosesNothing(t *testing.T) {
	t.Parallel()
	d := newDrive(t, spec("a"), Options{})
	d.step(Event{Kind: EvBegin})
	d.run.Ready()
	d.step(Event{Kind: EvGranted})
	d.run.Advance() // the grant was not shown
	ready, _ := d.run.Ready()
	if len(ready.Records.Tasks) != 1 || len(ready.Actions) != 1 || ready.Records.Run == nil {
		t.Errorf("%+v", ready)
	}
}

func TestReady_WithdrawsWhatItOffered(t *testing.T) {
	t.Parallel()
	d := newDrive(t, spec("a", "b", "c"), Options{})
	d.hand = true
	d.g.spec.Steps[1].Priority = 5
	d.step(Event{Kind: EvBegin})
	ready, _ := d.run.Ready()
	if got := fmt.Sprint(names(d, ready.Wants)); got != "[b a c]" {
		t.Fatal(got)
	}
	d.step(d.move([]string{"cancel", "c"})) // not shown to be durable yet: it simply is not wanted any more
	d.loop()
	d.step(d.move([]string{"pause", "b"}))
	ready, _ = d.run.Ready()
	if len(ready.Drops) != 1 || ready.Drops[0] != d.id("b") || len(ready.Wants) != 0 {
		t.Errorf("%+v", ready)
	}
	d.loop()
	d.play("resume b", "grant a", "pause", "resume |")
	ready, _ = d.run.Ready()
	if len(ready.Drops) != 0 || fmt.Sprint(names(d, ready.Wants)) != "[b]" {
		t.Errorf("%+v", ready)
	}
}

func names(d *drive, wants []Want) []string {
	var out []string
	for _, w := range wants {
		out = append(out, d.g.TaskName(w.Task))
	}
	return out
}

func TestOffer_KeepsTheLimitsAndTheOrder(t *testing.T) {
	t.Parallel()
	s := spec("scan each=a+b+c+d", "x", "y")
	s.Steps[0].Foreach.MaxConcurrent = 2
	s.Steps[2].Priority = -1
	s.MaxActive = 3
	d := newDrive(t, s, Options{})
	d.hand = true
	d.step(Event{Kind: EvBegin})
	offers := func(want string) {
		t.Helper()
		ready, _ := d.run.Ready()
		if got := strings.Join(names(d, ready.Wants), " "); got != want {
			t.Errorf("offered %q, want %q", got, want)
		}
		d.loop()
	}
	offers("scan/a scan/b x")
	d.play("grant scan/a", "end scan/a |")
	offers("scan/c")
	d.play("grant x", "end x |")
	offers("y")
	d.play("cancel scan/b |")
	offers("scan/d")
}
