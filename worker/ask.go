package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// longestAskPause between two tries to read something of a run. There is no last one: the lease decides, or how long reads fail.
const longestAskPause = time.Second

// kindOfRead is what is read of runs.
type kindOfRead int

const (
	readRun kindOfRead = iota
	readMail
	readDefinition
	kindsOfReads
)

// reads is what a worker knows of reads of its runs that fail, by kind: each may need another privilege.
type reads struct {
	mu     sync.Mutex
	mended bool   // one was answered since the last that failed
	unread Outage // keepRecords' alone
	of     [kindsOfReads]struct {
		n     int // drives whose read failed and goes again
		fails queue.Failure
	}
}

// failed takes in the error of a read that goes again.
func (r *reads) failed(kind kindOfRead, began time.Time, first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := &r.of[kind]
	if first {
		of.n++
	}
	if !of.fails.Failing() {
		if of.fails.Since = time.Now(); first {
			of.fails.Since = began
		}
	}
	of.fails.Err = err
	r.mended = false
}

// answered says that a read was: what fails beside it is not for want of a database.
func (r *reads) answered(kind kindOfRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[kind].fails = queue.Failure{}
	r.mended = true
}

// over says that a read which failed before does not go again, answered or not.
func (r *reads) over(kind kindOfRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[kind].n--; r.of[kind].n == 0 {
		r.of[kind].fails = queue.Failure{}
	}
}

// failure is the longest of those that go on. Where none does, mended says whether that is known from an answer.
func (r *reads) failure() (f queue.Failure, mended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.of {
		if g := r.of[i].fails; g.Failing() && (!f.Failing() || g.Since.Before(f.Since)) {
			f = g
		}
	}
	return f, r.mended
}

// ask reads something of the run. A database that is away, or that refuses the worker, says nothing about the run, so it is asked
// until it answers or the claim is lost.
func ask[T any](ctx context.Context, d *driver, kind kindOfRead, read func(context.Context) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		select {
		case <-d.claim.Lost():
			cancel(fmt.Errorf("run %d: %w", d.claim.Run, queue.ErrLeaseLost))
		case <-ctx.Done():
		}
	})
	began, tries := time.Now(), 0
	defer func() {
		if tries > 0 {
			d.life.reads.over(kind)
		}
	}()
	pause := d.life.pauses()
	pause.InitialInterval, pause.MaxInterval = 10*time.Millisecond, longestAskPause
	return backoff.Retry(ctx, func() (T, error) {
		answer, err := read(ctx)
		switch {
		case err == nil:
			d.life.reads.answered(kind)
		case !saysNothingOfRun(err):
			err = backoff.Permanent(err)
		default:
			d.life.reads.failed(kind, began, tries == 0, err)
			tries++
		}
		return answer, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(pause))
}

// saysNothingOfRun says whether an error is about the database alone, so that what got it goes again.
func saysNothingOfRun(err error) bool { return queue.Passing(err) || queue.OfDatabase(err) }

// lookAtReads takes in whether the database lets runs be read now.
func (l *life) lookAtReads() queue.Failure {
	f, mended := l.reads.failure()
	switch {
	case !f.Failing():
		l.fitness.clear(unfitReads)
		if !mended {
			l.reads.unread = Outage{} // who was to read is gone, and nothing is known
		}
	case time.Since(f.Since) >= tellFailure:
		l.fitness.set(unfitReads, f.Since, fmt.Sprintf("the database lets no runs be read (%s)", f.Cause()))
	}
	l.reads.unread.told(l.log, f.Since, f.Err, "the database lets no runs be read: nothing is claimed", "the database lets runs be read again")
	return f
}
