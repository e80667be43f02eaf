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

// reads is what a worker knows of reads of its runs that fail.
type reads struct {
	mu    sync.Mutex
	n     int // drives whose read failed and goes again
	fails queue.Failure
}

// failed takes in the error of a read that goes again.
func (r *reads) failed(began time.Time, first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first {
		r.n++
	}
	if !r.fails.Failing() {
		if r.fails.Since = time.Now(); first {
			r.fails.Since = began
		}
	}
	r.fails.Err = err
}

// answered says that a read was: what fails beside it is not for want of a database.
func (r *reads) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = queue.Failure{}
}

// over says that a read which failed before does not go again.
func (r *reads) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 {
		r.fails = queue.Failure{}
	}
}

func (r *reads) failure() queue.Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fails
}

// ask reads something of the run. A database that is away, or that refuses the worker, says nothing about the run, so it is asked
// until it answers or the claim is lost.
func ask[T any](ctx context.Context, d *driver, read func(context.Context) (T, error)) (answer T, err error) {
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
			d.worker.reads.over()
		}
	}()
	pause := d.worker.pauses()
	pause.InitialInterval, pause.MaxInterval = 10*time.Millisecond, longestAskPause
	return backoff.Retry(ctx, func() (T, error) {
		answer, err := read(ctx)
		switch {
		case err == nil:
			d.worker.reads.answered()
		case !saysNothingOfRun(err):
			err = backoff.Permanent(err)
		default:
			d.worker.reads.failed(began, tries == 0, err)
			tries++
		}
		return answer, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(pause))
}

// saysNothingOfRun says whether an error is about the database alone, so that what got it goes again.
func saysNothingOfRun(err error) bool { return queue.Passing(err) || queue.OfDatabase(err) }

// lookAtReads takes in whether the database lets runs be read now.
func (w *Worker) lookAtReads() queue.Failure {
	f := w.reads.failure()
	if !f.Failing() {
		w.fitness.clear(unfitReads)
	} else if time.Since(f.Since) >= tellFailure {
		w.fitness.set(unfitReads, f.Since, fmt.Sprintf("the database lets no runs be read (%s)", f.Cause()))
	}
	w.records.unread.told(w, f.Since, f.Err, "the database lets no runs be read: nothing is claimed", "the database lets runs be read again")
	return f
}
