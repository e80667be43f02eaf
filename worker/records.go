package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	// recordsEvery is how often a worker looks whether the database takes its records.
	recordsEvery = 250 * time.Millisecond
	// tellFailure is how old a failure is before it is told: most are mended sooner.
	tellFailure = time.Second
	// emptyPatience is how long a life of which no record was taken waits for the first: nothing of it runs.
	emptyPatience = 10 * time.Second
)

// Pauses between trials whether records are taken again. They grow until a record of a later life is taken.
const (
	firstTrialPause   = time.Second
	longestTrialPause = 30 * time.Second
	trialTimeout      = 10 * time.Second
)

// What ends a life in which the database did not do this for the time of a lease.
var (
	errUnwritten = errors.New("the database takes no records")
	errUnread    = errors.New("the database lets no runs be read")
)

// isGivenUp reports whether a life ended because its worker gave its runs up.
func isGivenUp(lost error) bool { return errors.Is(lost, errUnwritten) || errors.Is(lost, errUnread) }

// records is what a worker knows of its records. The outages belong to the goroutine that looks after them.
type records struct {
	unwritten Outage
	unlogged  Outage
	aside     Outage
	pauses    *backoff.ExponentialBackOff // between trials
}

// lookAtRecords takes in whether the database takes records now.
func (l *life) lookAtRecords() queue.SessionStats {
	s := l.session.Stats()
	if f := s.Failing; f.Failing() {
		l.fitness.set(unfitRecords, f.Since, fmt.Sprintf("the database takes no records (%s)", f.Cause()))
	} else {
		l.fitness.clear(unfitRecords)
	}
	return s
}

// keepRecords tells of records that are not taken and runs that cannot be read, and has the worker give its runs up when that lasts.
func (l *life) keepRecords() {
	look := time.NewTicker(recordsEvery)
	defer look.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-look.C:
		}
		s := l.lookAtRecords()
		l.tellRecords(&s)
		reads := l.lookAtReads()
		if s.Taken > 0 {
			l.records.pauses.Reset()
		}
		l.endIfTooLong(s.Failing, &s, errUnwritten)
		l.endIfTooLong(reads, &s, errUnread)
	}
}

// endIfTooLong has the worker give its runs up once something has failed for too long.
func (l *life) endIfTooLong(f queue.Failure, s *queue.SessionStats, why error) {
	if !f.Failing() || time.Since(f.Since) < l.recordsPatience(s) {
		return
	}
	select {
	case l.tooLong <- why:
	default:
	}
}

// recordsPatience is how long records or reads may fail before the worker gives its runs up: as long as others let it be silent.
func (w *Worker) recordsPatience(s *queue.SessionStats) time.Duration {
	if s.Taken == 0 {
		return min(emptyPatience, w.config.Self.TTL)
	}
	return w.config.Self.TTL
}

// tellRecords logs what fails, what waits, and when that is over.
func (l *life) tellRecords(s *queue.SessionStats) {
	l.records.unwritten.told(l.log, s.Failing.Since, s.Failing.Err,
		"the database takes no records: nothing is claimed", "the database takes records again")
	since, err := l.appends.failure()
	l.records.unlogged.told(l.log, since, err, "the database takes no logs", "the database takes logs again")
	var waits error
	if a := s.Aside; a.Holder != "" {
		waits = fmt.Errorf("run %d and %d others wait: %s", a.Run, a.Runs-1, a.Holder)
	} else {
		waits = fmt.Errorf("run %d and %d others wait: a transaction holds its row", a.Run, a.Runs-1)
	}
	l.records.aside.told(l.log, s.Aside.Since, waits, "records wait for a lock", "no record waits for a lock any more")
}

// told tells of something that fails since a moment; zero: it does not.
func (o *Outage) told(log *slog.Logger, since time.Time, err error, failed, over string) {
	switch {
	case since.IsZero():
		o.Over(log, over)
	case time.Since(since) >= tellFailure:
		o.FailedSince(log, since, failed, err)
	}
}

// unwrittenFor is how long the database has taken no records; 0: it takes them.
func (w *Worker) unwrittenFor() time.Duration { return w.failsFor(errUnwritten) }

// failsFor is how long the database has not done what would end this life; 0: it does it.
func (w *Worker) failsFor(why error) time.Duration {
	cause := unfitRecords
	if errors.Is(why, errUnread) {
		cause = unfitReads
	}
	r, unfit := w.fitness.of(cause)
	if !unfit {
		return 0
	}
	return time.Since(r.since)
}

// untilRecorded waits until a trial is taken. It says whether the worker is to begin anew.
func (w *Worker) untilRecorded(ctx context.Context, log *slog.Logger) bool {
	w.view.enter(Starting)
	for {
		next := time.NewTimer(w.records.pauses.NextBackOff())
		select {
		case <-w.drain:
			next.Stop()
			return false
		case <-next.C:
		}
		err := w.tryRecords(ctx)
		if err == nil {
			w.records.unwritten.Over(log, "the database takes records again")
			w.fitness.clear(unfitRecords)
			w.reads.unread = Outage{} // whether runs can be read the next life finds out
			w.fitness.clear(unfitReads)
			return true
		}
		w.records.unwritten.Failed(log, "the database takes no records: this worker is not registered", err)
	}
}

func (w *Worker) tryRecords(ctx context.Context) error {
	if w.config.Try == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	return w.config.Try(ctx)
}

// trialPauses grow from life to life.
func (w *Worker) trialPauses() *backoff.ExponentialBackOff {
	pauses := w.pauses()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = firstTrialPause, longestTrialPause, 2
	pauses.Reset()
	return pauses
}

// appends is what a worker knows of its appends to logs.
type appends struct {
	mu    sync.Mutex
	began time.Time // of the call under way; zero: none is
	since time.Time // when the first of the calls began that failed; zero: the last one went well
	err   error     // of the last one
}

// noted is a writer whose appends are taken note of.
type noted struct {
	Writer

	appends *appends
}

// AppendLogs takes note of what came of it, unless the caller gave up.
func (n noted) AppendLogs(ctx context.Context, chunks []queue.Chunk) error {
	began := time.Now()
	n.appends.begin(began)
	err := n.Writer.AppendLogs(ctx, chunks)
	_, told := errors.AsType[*queue.AppendError](err)
	n.appends.end(began, err, told || errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, queue.ErrLeaseLost) || errors.Is(err, queue.ErrClosed))
	return err
}

func (a *appends) begin(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = at
}

// end takes in how a call ended; well: an error is none of the database's.
func (a *appends) end(began time.Time, err error, well bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = time.Time{}
	switch {
	case err == nil || well:
		a.since, a.err = time.Time{}, nil
	case a.since.IsZero():
		a.since, a.err = began, err
	default:
		a.err = err
	}
}

// appendPatience is how long an append may be under way before it counts as one that fails.
const appendPatience = 3 * time.Second

var errNoAppend = errors.New("the server does not answer")

// failure is since when appends fail, and why; zero: they do not.
func (a *appends) failure() (since time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() && !a.began.IsZero() && time.Since(a.began) >= appendPatience {
		return a.began, errNoAppend
	}
	return a.since, a.err
}

func (a *appends) failingFor() time.Duration {
	since, _ := a.failure()
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}
