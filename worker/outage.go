package worker

import (
	"log/slog"
	"strings"
	"time"
)

const (
	sayAgain   = 30 * time.Second // how often an outage that goes on, or that comes and goes, is mentioned
	longRepeat = 5 * time.Second  // an outage that comes back is mentioned sooner once it lasts as long
)

// Outage logs what fails again and again: at once, then now and then, and when it is over. It belongs to one goroutine.
type Outage struct {
	since, said time.Time
	mentioned   bool // this one was, not one before
}

// Tell takes in how a call ended: it logs a failure, or that calls succeed again.
func (o *Outage) Tell(log *slog.Logger, err error, failed, over string) {
	if err != nil {
		o.Failed(log, failed, err)
		return
	}
	o.Over(log, over)
}

// Failed logs a failure, in one line, unless that was done a short while ago.
func (o *Outage) Failed(log *slog.Logger, msg string, err error) {
	o.FailedSince(log, time.Now(), msg, err)
}

// FailedSince is Failed for what began before.
func (o *Outage) FailedSince(log *slog.Logger, since time.Time, msg string, err error) {
	now := time.Now()
	if o.since.IsZero() {
		o.since = since
	}
	if !o.said.IsZero() && now.Sub(o.said) < sayAgain && (o.mentioned || now.Sub(o.since) < longRepeat) {
		return
	}
	o.said, o.mentioned = now, true
	log.Warn(msg, "err", strings.Join(strings.Fields(err.Error()), " "), "for", now.Sub(o.since).Round(time.Second))
}

// Over logs that it is over, if there was one that was mentioned.
func (o *Outage) Over(log *slog.Logger, msg string) {
	if o.mentioned {
		log.Info(msg, "after", time.Since(o.since).Round(time.Millisecond))
	}
	*o = Outage{said: o.said}
}
