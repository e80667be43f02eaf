package worker

import (
	"log/slog"
	"strings"
	"time"
)

// sayAgain is how often an outage that goes on is mentioned.
const sayAgain = 30 * time.Second

// Outage logs what fails again and again: at once, then now and then, and when it is over. It belongs to one goroutine.
type Outage struct {
	since, said time.Time
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
	if !o.said.IsZero() && now.Sub(o.said) < sayAgain {
		return
	}
	o.said = now
	log.Warn(msg, "err", strings.Join(strings.Fields(err.Error()), " "), "for", now.Sub(o.since).Round(time.Second))
}

// Over logs that it is over, if there was one.
func (o *Outage) Over(log *slog.Logger, msg string) {
	if !o.since.IsZero() {
		log.Info(msg, "after", time.Since(o.since).Round(time.Millisecond))
	}
	*o = Outage{}
}
