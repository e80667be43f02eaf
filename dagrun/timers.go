package dagrun

import (
	"strconv"
	"strings"
)

// setAlarm asks r.alarm when the task must be looked at next, and stores the answer in t. It moves the task to the heap that
// r.alarm names, or out of its heap if the task needs no alarm. Code that changes the state, phase, request or times of a task must
// then call setAlarm.
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

// alarm returns the time when a task must be looked at even if no event comes, and the heap for it: bodies and publishes under way
// have their own. It returns 0 and nil for a task that needs no alarm, for instance one with a request.
func (r *Run) alarm(t *task) (Time, *heap) {
	if t.Request != RequestNone {
		return 0, nil
	}
	at, clock := Time(0), &r.timers
	switch t.State {
	case TaskRunning:
		at, clock = t.deadline, &r.bodies
	case TaskFinishing:
		if t.phase == phasePublishing && !t.late {
			at, clock = t.deadline, &r.bodies
		}
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

// earliest returns the earlier of two times, where 0 means none.
func earliest(a, b Time) Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// fire handles all alarms of tasks that are due, and the run's timeout, in the order of their times. Before EvBegin it does
// nothing.
func (r *Run) fire() {
	for r.begun {
		t := r.nextAlarm()
		switch {
		case r.clockRuns() && r.rec.Deadline <= r.now && (t == nil || r.rec.Deadline < t.alarm):
			r.endRun(EndingTimeout, "", "")
		case t == nil || t.alarm > r.now:
			return
		default:
			r.ring(t)
		}
	}
}

// nextAlarm returns the task with the earliest alarm, or nil if there is none. While the run is paused or drained it looks only at
// bodies and publishes under way.
func (r *Run) nextAlarm() *task {
	switch {
	case r.halted() || r.timers.len() == 0:
		return r.bodies.first()
	case r.bodies.len() == 0 || byAlarm(r.timers.first(), r.bodies.first()) < 0:
		return r.timers.first()
	default:
		return r.bodies.first()
	}
}

// ring handles the alarm of a task, which is due, and clears it. A body or publish has timed out and is stopped. A wait ends or is
// opened again. After a backoff the next attempt, or the next try of a publish, begins.
func (r *Run) ring(t *task) {
	t.clock.remove(t)
	t.alarm, t.clock = 0, nil
	switch {
	case t.State == TaskRunning:
		r.request(t, RequestTimeout, "", "timed out after "+t.step.Timeout.String(), false)
	case t.State == TaskFinishing:
		r.publishLate(t)
	case t.State == TaskWaiting:
		r.wake(t)
	case t.Publishing:
		r.publishAgain(t)
	default:
		r.again(t)
	}
}

// timed reports whether the run has a timeout that may still end it: only while steps are open, and the run has no ending as strong
// as that.
func (r *Run) timed() bool { return r.rec.Deadline != 0 && r.open > 0 && r.rec.Ending < EndingTimeout }

// clockRuns reports whether the run's timeout may end it now. A paused run must not time out.
func (r *Run) clockRuns() bool { return r.timed() && r.rec.PausedBy == "" }

// wakeAt returns the time when the caller must step an EvTick at the latest, or 0 for never. The time is now if tasks are left to
// be judged.
func (r *Run) wakeAt() Time {
	if !r.begun {
		return 0
	}
	if len(r.work)+len(r.fresh) > 0 {
		return max(r.now, 1)
	}
	at := Time(0)
	if t := r.nextAlarm(); t != nil {
		at = t.alarm
	}
	if r.clockRuns() {
		at = earliest(at, r.rec.Deadline)
	}
	return at
}

// String formats a span with all units that are not 0, from days to milliseconds, like 1h30m or 500ms. No time is 0s.
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
