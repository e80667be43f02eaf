package dagrun

import (
	"cmp"
	"fmt"
)

// control decides a request from outside, once.
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
	paused := Decision{Outcome: Applied, State: RunPaused.String()} // a run that has not begun gets the state when it begins
	if r.rec.PausedBy != "" {
		return paused
	}
	r.rec.PausedBy = cmp.Or(c.By, "somebody") // that it is set means that the run is paused
	if r.begun {
		r.rec.State = RunPaused
	}
	r.hold()
	return paused
}

// resumeRun lifts the pause: what it held up is judged from scratch, and timers that came due meanwhile fire.
func (r *Run) resumeRun() Decision {
	if r.rec.PausedBy == "" {
		return r.refused("the run is not paused")
	}
	r.unpause()
	return Decision{Outcome: Applied, State: RunRunning.String()} // or as soon as it begins
}

func (r *Run) unpause() {
	r.rec.PausedBy = ""
	if r.begun {
		r.rec.State = RunRunning
	}
	r.release()
}

// decision answers a control of the run.
func (r *Run) decision(o Outcome) Decision {
	return Decision{Outcome: o, State: r.rec.State.String()}
}

func (r *Run) refused(why string) Decision {
	d := r.decision(Refused)
	d.Message = why
	return d
}

// noteControl tells what became of a request. That a child run ended is told by the end of the step that waited for it.
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
