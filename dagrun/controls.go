package dagrun

import (
	"cmp"
	"fmt"
)

// control decides a request from outside. It returns ErrStale for a control that it has decided before.
func (r *Run) control(c *Control) error {
	if c == nil {
		return ErrEvent
	}
	if r.decided[c.ID] {
		return ErrStale
	}
	r.decided[c.ID] = true
	d := r.decide(c)
	d.ID = c.ID
	r.decisions = append(r.decisions, d)
	r.noteControl(c, d)
	return nil
}

func (r *Run) decide(c *Control) Decision {
	switch {
	case c.Verb > VerbChildEnded:
		return r.refused("this version does not know what is asked for")
	case c.Verb == VerbRetry:
		return r.retryRun(c)
	case c.Task == nil:
		return r.decideRun(c)
	}
	t := r.find(*c.Task)
	if t == nil {
		return r.refused("the run has no such task")
	}
	return r.decideTask(t, c)
}

func (r *Run) decideRun(c *Control) Decision {
	if r.rec.Ending == EndingRefused {
		return r.refused("the run has failed")
	}
	switch c.Verb {
	case VerbCancel:
		return r.cancelRun(c)
	case VerbPause:
		return r.pauseRun(c)
	case VerbResume:
		return r.resumeRun()
	default:
		return r.refused("say which task")
	}
}

// cancelRun ends the run; a second cancel does so without handlers.
func (r *Run) cancelRun(c *Control) Decision {
	ending, by := EndingCancel, c.By
	if c.Now {
		ending = EndingNow
	}
	if r.canceled() {
		ending, by = EndingNow, r.rec.EndingBy
	}
	r.endRun(ending, by, c.Text)
	return r.decision(Accepted)
}

func (r *Run) pauseRun(c *Control) Decision {
	if r.rec.Ending != EndingNone || r.verdict != nil {
		return r.refused("the run is ending")
	}
	paused := Decision{Outcome: Applied, State: RunPaused.String()} // a run that has not begun takes this state when it begins
	if r.rec.PausedBy != "" {
		return paused
	}
	r.rec.PausedBy = cmp.Or(c.By, "somebody") // PausedBy must not be empty: it marks the run as paused
	if r.begun {
		r.rec.State = RunPaused
	}
	r.hold()
	return paused
}

// resumeRun lifts the pause. Tasks that the pause held back are judged again, and timers that came due meanwhile fire.
func (r *Run) resumeRun() Decision {
	if r.rec.PausedBy == "" {
		return r.refused("the run is not paused")
	}
	r.unpause()
	return Decision{Outcome: Applied, State: RunRunning.String()} // if the run has not begun, it takes this state when it begins
}

func (r *Run) unpause() {
	r.rec.PausedBy = ""
	if r.begun {
		r.rec.State = RunRunning
	}
	r.release()
}

// decision returns the answer to a control of the run.
func (r *Run) decision(o Outcome) Decision {
	return Decision{Outcome: o, State: r.rec.State.String()}
}

func (r *Run) refused(why string) Decision {
	d := r.decision(Refused)
	d.Message = why
	return d
}

// noteControl adds a note about the decision of a control. It adds none for the end of a child run, because the task that
// waited for the child run records that.
func (r *Run) noteControl(c *Control, d Decision) {
	if c.Verb == VerbChildEnded && d.Outcome == Applied {
		return
	}
	text := fmt.Sprintf("%s: %s", byWhom(c.Verb.String(), c.By), d.Outcome)
	if d.Message != "" {
		text += ": " + d.Message
	}
	var t *task
	if c.Task != nil {
		t = r.find(*c.Task)
	}
	r.note(t, "control", text)
}
