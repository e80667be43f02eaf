package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var refusePromises = []promise{
	{"records that are refused are written once they are taken", refusedIsWritten},
	{"a session whose records are refused gives back what it holds", refusedGivesBack},
}

// refused begins to write a record that the store does not take.
func (s *setup) refused(w Session) (c *queue.Claim, done chan error, mend func()) {
	s.Helper()
	s.start(chain)
	c = s.claimOne(w)
	at := s.now(w)
	mend = s.Refuse()
	done = make(chan error, 1)
	go func() { done <- s.record(w, c, row(0, 1, dagrun.TaskRunning, at)) }()
	s.until("the session tells of it", func() bool { return w.Stats().Failing.Failing() })
	return c, done, mend
}

func refusedIsWritten(s *setup) {
	w := s.worker()
	if stats := w.Stats(); stats.Taken != 0 || stats.Failing.Failing() {
		s.Errorf("of a new session: %+v", stats)
	}
	began := time.Now()
	c, done, mend := s.refused(w)
	stats := w.Stats()
	if since := stats.Failing.Since; since.Before(began) || time.Now().Before(since) || stats.Failing.Err == nil {
		s.Errorf("it fails since %v by %v", since, stats.Failing.Err)
	}
	if got, want := stats.Failing.Cause(), "disk full, 53100"; got != want {
		s.Errorf("the cause is %q, not %q", got, want)
	}
	s.now(w) // a renewal is answered meanwhile
	s.idle(w, "nothing else is queued")
	select {
	case err := <-done:
		s.Fatalf("it was written, or not: %v", err)
	default:
	}
	mend()
	s.must(<-done)
	if stats := w.Stats(); stats.Taken != 1 || stats.Failing.Failing() {
		s.Errorf("after it was taken: %+v", stats)
	}
	if got := s.tasks(c.Run)["a"].State; got != "running" {
		s.Errorf("the task is %q", got)
	}
}

func refusedGivesBack(s *setup) {
	w := s.worker()
	c, done, mend := s.refused(w)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := w.Close(ctx); err != nil && !errors.Is(err, queue.ErrUnknown) {
		s.Errorf("close: %v", err)
	}
	s.wantError(<-done, queue.ErrClosed)
	mend()
	if again := s.claimOne(s.worker()); again.Run != c.Run || again.Epoch != 2 || again.Losses != 0 {
		s.Errorf("claimed again: %+v", again)
	}
	if got := s.tasks(c.Run)["a"].State; got != "pending" {
		s.Errorf("what was refused was written: the task is %q", got)
	}
}
