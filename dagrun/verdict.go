package dagrun

import (
	"cmp"
	"fmt"
	"slices"
)

// conclude decides whether the drive ends here. The decision is a proposal until Advance.
func (r *Run) conclude() {
	r.leave, r.verdict = nil, nil
	switch {
	case r.finishedAll():
		state := r.outcome()
		r.verdict = &Verdict{State: state, Reason: r.outcomeReason(state), Tolerated: r.rec.Tolerated}
	case !r.begun:
	case r.draining && r.idle():
		r.leave = &Leave{Drained: true}
	case r.parks():
		r.leave = &Leave{WakeAt: r.parkedUntil()}
	}
}

func (r *Run) finishedAll() bool {
	if r.rec.Ending == EndingRefused {
		return true
	}
	return r.begun && r.open == 0 && r.turn == nil
}

// idle reports whether no body and no publish is under way.
func (r *Run) idle() bool { return r.bags[flying].len()+r.bags[landing].len() == 0 }

// parks reports whether the run has nothing to do for so long that the drive should give its claim back.
func (r *Run) parks() bool {
	switch {
	case !r.idle():
		return false
	case r.rec.PausedBy != "":
		return true
	case len(r.work) > 0:
		return false
	case r.bags[probing].len()+r.bags[opening].len()+r.bags[offered].len()+r.bags[wanting].len() > 0:
		return false
	}
	first := r.timers.first()
	return first == nil || first.alarm >= after(r.now, r.opts.ParkAfter)
}

func (r *Run) parkedUntil() Time {
	if first := r.timers.first(); first != nil && r.rec.PausedBy == "" {
		return first.alarm
	}
	return 0
}

// record returns the run's row. If the drive ends, the row has its final values.
func (r *Run) record() RunRecord {
	rec := r.rec
	rec.Counts = r.counts
	switch {
	case r.verdict != nil:
		rec.State, rec.Reason, rec.FinishedAt = r.verdict.State, r.verdict.Reason, r.now
		rec.Deadline = 0
		n := r.leftOutCount()
		rec.Counts.Total, rec.Counts.Skipped = rec.Counts.Total+n, rec.Counts.Skipped+n
	case r.leave == nil:
	case r.leave.Drained:
		rec.State = RunQueued
	default:
		rec.WakeAt, rec.Reason = r.leave.WakeAt, r.Reason()
		if rec.State == RunRunning {
			rec.State = RunWaiting
		}
		if r.timed() {
			rec.Left = max(Duration(rec.Deadline-r.now), 1)
		}
		rec.Deadline = 0
	}
	return rec
}

// outcome returns the verdict as far as it can be known now.
func (r *Run) outcome() RunState {
	switch {
	case r.canceled():
		return RunCanceled
	case r.rec.Ending != EndingNone && r.rec.Ending != EndingFailFast, r.failed():
		return RunFailed
	case r.counts.Canceled > 0:
		return RunCanceled
	default:
		return RunSucceeded
	}
}

func (r *Run) outcomeReason(s RunState) string {
	switch {
	case s == RunSucceeded && r.allSkipped():
		return "nothing to do"
	case s == RunSucceeded:
		return ""
	case r.rec.Ending != EndingNone && r.rec.Ending != EndingFailFast:
		return r.endingReason()
	case s == RunCanceled:
		return r.firstOf(TaskCanceled, "canceled")
	case len(r.failures) > 0:
		return r.failureReason()
	default:
		return r.firstOf(TaskUpstreamFailed, "failed")
	}
}

func (r *Run) allSkipped() bool {
	for i := range r.graph.plain {
		if r.nodes[i].state != TaskSkipped {
			return false
		}
	}
	return true
}

// firstOf describes the first task in a state, in graph order. It returns otherwise if there is none.
func (r *Run) firstOf(s State, otherwise string) string {
	for i := range r.nodes {
		found := ""
		r.nodes[i].tasks(func(t *task) {
			if found == "" && t.State == s && !t.grows() {
				found = fmt.Sprintf("step %s %s", r.graph.TaskName(t.ID), cmp.Or(t.Reason, s.String()))
			}
		})
		if found != "" {
			return found
		}
	}
	return otherwise
}

// failureReason describes the earliest failure.
func (r *Run) failureReason() string {
	first := r.sortedFailures()[0]
	reason := fmt.Sprintf("step %s failed: %s", r.graph.TaskName(first.ID), first.Reason)
	if more := len(r.failures) - 1; more > 0 {
		reason += fmt.Sprintf(" (and %d more)", more)
	}
	return reason
}

// sortedFailures returns the failures by time. Failures of the same time are in graph order, so that a restored run returns
// the same order.
func (r *Run) sortedFailures() []*task {
	slices.SortFunc(r.failures, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.FinishedAt, b.FinishedAt), inOrder(a, b))
	})
	return r.failures
}
