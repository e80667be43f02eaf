package worker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/queue"
)

// Phase is what a worker is at.
type Phase string

// Phases. When its lease is lost a worker goes from Ending to Starting again.
const (
	Starting Phase = "starting" // not registered (any more)
	Live     Phase = "live"
	Draining Phase = "draining" // it claims nothing more, what it runs goes on
	Ending   Phase = "ending"   // everything it runs has been told to end
	Stopped  Phase = "stopped"
)

// Status is a worker at one moment.
type Status struct {
	Phase       Phase
	Since       time.Time // when it came to that, but for Draining, which is Live from before
	Worker      uuid.UUID // of this registration, or of the last one
	Containment string

	TTL        time.Duration
	RenewEvery time.Duration
	Ticked     time.Time     // when the keeper of the lease last came round: every RenewEvery while Live and Draining
	Soft, Hard time.Duration // until when the lease holds, by the time since boot: see queue.Session.Deadline
	Renewed    time.Duration // when the last sign of life that was answered was sent, by the time since boot
	RenewErr   error         // of the last sign of life; nil: it was taken
	Refusal    string        // what the database answered to it in place of that; "": nothing

	Awaits        string        // what it waits for before it can register, for people; "": nothing that it knows of
	Registrations int           // so far
	Losses        int           // of its lease, so far
	GivenUp       int           // lives that ended because the database took no records or let no runs be read
	Unfit         []string      // why it claims nothing now, for people, the oldest reason first
	UnfitFor      []string      // the same as words of UnfitCauses
	Unwritten     time.Duration // how long the database has taken no records; 0: it takes them
	Unlogged      time.Duration // the same of logs
	Runs          int           // under way here
	Stalled       []queue.RunID // of these, those that can do nothing until they get a slot
	Gate          GateStats
	Session       queue.SessionStats
}

// view is what Status needs to see of a worker's life, whoever asks.
type view struct {
	mu     sync.Mutex
	status Status
	life   *life // the last that was registered; nil: none yet
}

// Status shows the worker at this moment. It waits for nobody: what it says of the database is what the worker knows.
func (w *Worker) Status() Status {
	w.view.mu.Lock()
	s, l := w.view.status, w.view.life
	w.view.mu.Unlock()
	s.Gate, s.Unfit, s.UnfitFor = w.gate.Stats(), w.fitness.texts(), w.unfitFor()
	s.Unwritten = w.unwrittenFor()
	if l != nil {
		s.Unlogged = l.appends.failingFor()
		s.Soft, s.Hard = l.session.Deadline()
		var idle stalls
		s.Runs, idle = l.fleet.look()
		s.Session, s.Stalled = l.session.Stats(), idle.runs()
	}
	if s.Phase == Live && w.stopping() {
		s.Phase = Draining
	}
	return s
}

// Await has the status say what the worker waits for before it can register; "": it does not know. It is for Config.Register.
func (w *Worker) Await(what string) { w.view.change(func(s *Status) { s.Awaits = what }) }

func (v *view) change(do func(*Status)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	do(&v.status)
}

func (v *view) enter(p Phase) {
	v.change(func(s *Status) {
		if s.Phase != p {
			s.Phase, s.Since = p, time.Now()
		}
	})
}

// registered begins a life, whose first renewal was sent at asked.
func (v *view) registered(l *life, asked time.Duration) {
	v.enter(Live)
	v.change(func(s *Status) {
		v.life = l
		s.Worker, s.Ticked, s.Renewed, s.RenewErr, s.Refusal, s.Awaits = l.id, time.Now(), asked, nil, "", ""
		s.Registrations++
	})
}

func (v *view) ticked() { v.change(func(s *Status) { s.Ticked = time.Now() }) }

// renewed takes in what came of the sign of life that was sent at asked.
func (v *view) renewed(asked time.Duration, err error) {
	v.change(func(s *Status) {
		s.RenewErr, s.Refusal = err, ""
		if err == nil {
			s.Renewed = asked
		}
		if refusal, ok := errors.AsType[*queue.Error](err); ok {
			s.Refusal = fmt.Sprintf("%s (%s)", refusal.Message, refusal.Code)
		}
		if queue.Crowded(err) {
			s.Refusal = "too many connections"
		}
	})
}
