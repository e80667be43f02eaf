package dagrun

import (
	"strconv"
	"strings"
)

// setAlarm brings the alarm of a task in line with its row.
func (r *Run) setAlarm(t *task) {
	at, clock := r.alarm(t)
	if at == t.alarm && clock == t.clock {
		return
	}
	if t.clock != nil {
		t.clock.remove(t)
	}
	t.alarm, t.clock = at, clock
	if clock != nil {
		clock.push(t)
	}
}

// alarm says when a task has to be looked at though nothing happens. A request that is still to come true silences it.
func (r *Run) alarm(t *task) (Time, *heap) {
	if t.Request != RequestNone {
		return 0, nil
	}
	at, clock := Time(0), &r.timers
	switch t.State {
	case TaskRunning:
		at, clock = t.deadline, &r.bodies
	case TaskRetrying:
		at = t.NextAt
	case TaskWaiting:
		at = earliest(t.NextAt, t.Deadline)
	}
	if at == 0 {
		return 0, nil
	}
	return at, clock
}

func earliest(a, b Time) Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// fire goes on with whatever is due. While the run is paused or drained only bodies under way time out.
func (r *Run) fire() {
	if !r.begun {
		return
	}
	if r.clockRuns() && r.rec.Deadline <= r.now {
		r.endRun(EndingTimeout, "", "")
	}
	for t := r.due(&r.bodies); t != nil; t = r.due(&r.bodies) {
		r.request(t, RequestTimeout, "", "timed out after "+t.step.Timeout.String(), false)
	}
	if r.halted() {
		return
	}
	for t := r.due(&r.timers); t != nil; t = r.due(&r.timers) {
		r.silence(t)
		switch {
		case t.State == TaskWaiting:
			r.wake(t)
		case t.Publishing:
			r.enqueue(t)
		default:
			r.again(t)
		}
	}
}

// due is the task whose alarm of this kind comes first, if it has come.
func (r *Run) due(clock *heap) *task {
	if clock.len() == 0 || clock.top().alarm > r.now {
		return nil
	}
	return clock.top()
}

func (r *Run) silence(t *task) {
	t.clock.remove(t)
	t.alarm, t.clock = 0, nil
}

// timed says whether the run's own timeout may still end it: it is about steps only.
func (r *Run) timed() bool { return r.rec.Deadline != 0 && r.open > 0 && r.rec.Ending < EndingTimeout }

// clockRuns says whether it may do so now: a paused run has time.
func (r *Run) clockRuns() bool { return r.timed() && r.rec.PausedBy == "" }

// wakeAt is when a tick is due.
func (r *Run) wakeAt() Time {
	if !r.begun {
		return 0
	}
	at := Time(0)
	if r.clockRuns() {
		at = r.rec.Deadline
	}
	if r.bodies.len() > 0 {
		at = earliest(at, r.bodies.top().alarm)
	}
	if !r.halted() {
		at = earliest(at, r.firstTimer())
	}
	return at
}

func (r *Run) firstTimer() Time {
	if r.timers.len() == 0 {
		return 0
	}
	return r.timers.top().alarm
}

// String prints a span like 1h30m or 500ms.
func (d Duration) String() string {
	if d <= 0 {
		return strconv.FormatInt(int64(d), 10) + "s"
	}
	units := []struct {
		ms   Duration
		name string
	}{{86_400_000, "d"}, {3_600_000, "h"}, {60_000, "m"}, {1000, "s"}, {1, "ms"}}
	var b strings.Builder
	for _, u := range units {
		if n := d / u.ms; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + u.name)
			d -= n * u.ms
		}
	}
	return b.String()
}
