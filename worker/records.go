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
	// recordsEvery is the time between two checks whether the database takes the worker's records.
	recordsEvery = 250 * time.Millisecond
	// tellFailure is how old a failure is before it is logged. Most failures are over sooner.
	tellFailure = time.Second
	// emptyPatience is how long a life waits for its first record to be taken. No task runs before that.
	emptyPatience = 10 * time.Second
)

// Pauses between trials whether the database takes records again. They grow until a record of a later life is taken.
const (
	firstTrialPause   = time.Second
	longestTrialPause = 30 * time.Second
	trialTimeout      = 10 * time.Second
)

// Causes of giving all runs up and ending a life, after the database has failed for recordsPatience.
var (
	errUnwritten = errors.New("the database takes no records")
	errUnread    = errors.New("the database lets no runs be read")
)

// isGivenUp reports whether a life ended because its worker gave its runs up.
func isGivenUp(lost error) bool { return errors.Is(lost, errUnwritten) || errors.Is(lost, errUnread) }

// records holds the outages of a worker's records. They belong to keepRecords, and between two lives to untilRecorded.
type records struct {
	unwritten Outage                      // records that the database does not take
	unlogged  Outage                      // logs that the database does not take
	aside     Outage                      // records that wait for a lock
	pauses    *backoff.ExponentialBackOff // between trials
}

// lookAtRecords sets or clears unfitRecords, depending on whether the database takes records now. It returns the session's figures.
func (l *life) lookAtRecords() queue.SessionStats {
	s := l.session.Stats()
	if f := s.Failing; f.Failing() {
		l.fitness.set(unfitRecords, f.Since, fmt.Sprintf("the database takes no records (%s)", f.Cause()))
	} else {
		l.fitness.clear(unfitRecords)
	}
	return s
}

// keepRecords is the loop that logs when records are not taken or runs cannot be read, and keeps the reasons to be unfit up to
// date. It has the worker give its runs up when such a failure lasts for recordsPatience. It returns when the life has ended.
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

// endIfTooLong has the worker give its runs up, for the reason why, once the failure f has gone on for recordsPatience. It does
// nothing if f is no failure.
func (l *life) endIfTooLong(f queue.Failure, s *queue.SessionStats, why error) {
	if !f.Failing() || time.Since(f.Since) < l.recordsPatience(s) {
		return
	}
	select {
	case l.tooLong <- why:
	default:
	}
}

// recordsPatience returns how long records or reads may fail before the worker gives its runs up. That is a TTL, the same time for
// which other workers let a silent worker keep its runs. While the database has taken no record of this session yet, it is at most
// emptyPatience.
func (w *Worker) recordsPatience(s *queue.SessionStats) time.Duration {
	if s.Taken == 0 {
		return min(emptyPatience, w.config.Self.TTL)
	}
	return w.config.Self.TTL
}

// tellRecords logs records and logs that fail, records that wait for a lock, and the end of each.
func (l *life) tellRecords(s *queue.SessionStats) {
	l.records.unwritten.report(l.log, s.Failing.Since, s.Failing.Err,
		"the database takes no records: nothing is claimed", "the database takes records again")
	since, err := l.appends.failure()
	l.records.unlogged.report(l.log, since, err, "the database takes no logs", "the database takes logs again")
	var waits error
	if a := s.Aside; a.Holder != "" {
		waits = fmt.Errorf("run %d and %d others wait: %s", a.Run, a.Runs-1, a.Holder)
	} else {
		waits = fmt.Errorf("run %d and %d others wait: a transaction holds its row", a.Run, a.Runs-1)
	}
	l.records.aside.report(l.log, s.Aside.Since, waits, "records wait for a lock", "no record waits for a lock any more")
}

// report logs a failure that began at since with the message failed, once it is as old as tellFailure. If since is zero there is no
// failure: the outage is over, which report logs with the message over.
func (o *Outage) report(log *slog.Logger, since time.Time, err error, failed, over string) {
	switch {
	case since.IsZero():
		o.Over(log, over)
	case time.Since(since) >= tellFailure:
		o.FailedSince(log, since, failed, err)
	}
}

// unwrittenFor returns how long the database has taken no records; 0: it takes them.
func (w *Worker) unwrittenFor() time.Duration { return w.failsFor(errUnwritten) }

// failsFor returns how long the database has taken no records, for why errUnwritten, or has let no runs be read, for errUnread; 0:
// it takes them, or lets them be read.
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

// untilRecorded waits until a trial shows that the database takes records again, and then clears unfitRecords and unfitReads. It
// pauses before each trial. It returns false if the worker is to stop.
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
			w.reads.unread = Outage{} // the next life finds out whether runs can be read
			w.fitness.clear(unfitReads)
			return true
		}
		w.records.unwritten.Failed(log, "the database takes no records: this worker is not registered", err)
	}
}

// tryRecords runs Config.Try, for at most trialTimeout. Without Config.Try it returns nil, as if the database took records.
func (w *Worker) tryRecords(ctx context.Context) error {
	if w.config.Try == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	return w.config.Try(ctx)
}

// trialPauses returns pauses that double from trial to trial, and go on growing over several lives.
func (w *Worker) trialPauses() *backoff.ExponentialBackOff {
	pauses := w.pauses()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = firstTrialPause, longestTrialPause, 2
	pauses.Reset()
	return pauses
}

// appends records how the appends to logs of one life went.
type appends struct {
	mu    sync.Mutex
	began time.Time // when the call under way began; zero: none is
	since time.Time // when the first of the failed calls began; zero: the last call went well
	err   error     // of the last failed call
}

// noted is a Writer that records the outcome of its appends.
type noted struct {
	Writer

	appends *appends
}

// AppendLogs implements Writer, and records the outcome in n.appends. An append counts as failed only if the error is about the
// database: not if the caller gave up, the session has ended, or the answer refuses chunks of some runs.
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

// end records the end of a call that began at began. If well is set, err is not about the database, and the call counts as if it
// had succeeded.
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

// appendPatience is how long an append may be under way before it counts as failing.
const appendPatience = 3 * time.Second

var errNoAppend = errors.New("the server does not answer")

// failure returns since when appends have failed, and the last error; zero and nil: they do not fail. A call under way counts as
// failing after appendPatience, with errNoAppend.
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
