package enumerate

import (
	"errors"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// plan is what users do to a run: nothing, one control at any point, or a pause at any point and a resume at any later
// one.
type plan struct {
	first    *dagrun.Control
	oneOrder bool // bodies end in one order only: the lowest number first
	live     bool // a retry comes while the run is under way
}

// plans returns a plan for each control.
func plans(tasks int) []plan {
	list := []dagrun.Control{
		{Verb: dagrun.VerbCancel},
		{Verb: dagrun.VerbCancel, Now: true},
		{Verb: dagrun.VerbPause},
		{Verb: dagrun.VerbRetry, Mode: dagrun.RetryFailed},
		{Verb: dagrun.VerbRetry, Mode: dagrun.RetryAll},
	}
	for i := range tasks {
		id := &dagrun.TaskID{Step: i}
		list = append(list, dagrun.Control{Verb: dagrun.VerbCancel, Task: id}, dagrun.Control{Verb: dagrun.VerbPause, Task: id},
			dagrun.Control{Verb: dagrun.VerbRetry, Mode: dagrun.RetryFrom, Task: id}, dagrun.Control{Verb: dagrun.VerbRetry, Mode: dagrun.RetryStep, Task: id})
		for _, as := range []dagrun.State{dagrun.TaskSucceeded, dagrun.TaskFailed, dagrun.TaskSkipped} {
			list = append(list, dagrun.Control{Verb: dagrun.VerbMark, As: as, Task: id})
		}
	}
	all := make([]plan, 0, len(list)+tasks)
	for i := range list {
		all = append(all, plan{first: &list[i], oneOrder: true})
	}
	for i := range tasks {
		retry := &dagrun.Control{Verb: dagrun.VerbRetry, Mode: dagrun.RetryStep, Task: &dagrun.TaskID{Step: i}}
		all = append(all, plan{first: retry, oneOrder: true, live: true})
	}
	return all
}

func (p plan) String() string {
	if p.first == nil {
		return "no control"
	}
	s := p.first.Verb.String()
	switch p.first.Verb {
	case dagrun.VerbRetry:
		s += " " + p.first.Mode.String()
	case dagrun.VerbMark:
		s += " " + p.first.As.String()
	}
	if p.first.Now {
		s += " now"
	}
	if p.live {
		s += " under way"
	}
	if p.first.Task != nil {
		s += fmt.Sprintf(" task %d", p.first.Task.Step)
	}
	return s
}

func (p plan) is(v dagrun.Verb) bool { return p.first != nil && p.first.Verb == v }

// control returns control number n. All controls after the first are resumes.
func (p plan) control(n int) dagrun.Control {
	ct := dagrun.Control{Verb: dagrun.VerbResume, Task: p.first.Task}
	if n == 0 {
		ct = *p.first
	}
	ct.ID, ct.By = int64(n+1), "ana"
	if ct.Verb == dagrun.VerbRetry && !p.live {
		ct.Generation = 2
	}
	return ct
}

// mayAsk reports whether a user may make the next control now. A user resumes a pause only after the pause has taken
// effect.
func (p plan) mayAsk(s *stored) bool {
	switch {
	case p.first == nil || p.first.Verb == dagrun.VerbRetry && !p.live:
		return false
	case s.asked == 0:
		return true
	}
	return p.is(dagrun.VerbPause) && s.asked == 1 && took(s.answers[0])
}

// mayWake reports whether a user wakes a parked run: the user that paused it, perhaps after the answer that it was still
// stopping.
func (p plan) mayWake(s *stored) bool {
	return p.is(dagrun.VerbPause) && s.asked > 0 && s.asked < mostControls
}

func (p plan) mayRetry(s *stored) bool { return p.is(dagrun.VerbRetry) && !p.live && s.asked == 0 }

func took(o dagrun.Outcome) bool { return o == dagrun.Applied || o == dagrun.Accepted }

// mayStart returns an error for a start that a control in force forbids.
func (p plan) mayStart(s *stored, task int) error {
	if p.first == nil || !took(s.answers[0]) {
		return nil
	}
	about := p.first.Task == nil || p.first.Task.Step == task
	switch {
	case !about:
	case p.first.Verb == dagrun.VerbCancel:
		return errors.New("it was canceled")
	case p.first.Verb == dagrun.VerbMark:
		return errors.New("it was marked")
	case p.first.Verb == dagrun.VerbPause && s.asked == 1:
		return errors.New("it was paused")
	}
	return nil
}
