package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// longestAskPause between two tries to read something of a run. There is no last one: the lease decides.
const longestAskPause = time.Second

// ask reads something of the run. A database that is away says nothing about the run, so it is asked until it answers or
// the claim is lost.
func ask[T any](ctx context.Context, d *driver, read func(context.Context) (T, error)) (answer T, err error) {
	pause := d.worker.pauses()
	pause.InitialInterval, pause.MaxInterval = 10*time.Millisecond, longestAskPause
	err = d.call(ctx, d.claim.Lost(), func(ctx context.Context) (err error) {
		answer, err = backoff.Retry(ctx, func() (T, error) {
			answer, err := read(ctx)
			if err != nil && !queue.Passing(err) {
				err = backoff.Permanent(err)
			}
			return answer, err
		}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(pause))
		return err
	})
	return answer, err
}

// call does what may take as long as the database is away, and meanwhile hears when bodies must be given up: this is just
// when that happens. lost, unless nil, ends it.
func (d *driver) call(ctx context.Context, lost <-chan struct{}, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case <-d.orders.signal:
			d.obey()
		case <-lost:
			lost = nil
			cancel(fmt.Errorf("run %d: %w", d.claim.Run, queue.ErrLeaseLost))
		}
	}
}

// obey gives up every body. Those that a commit under way is about to start see the order by themselves.
func (d *driver) obey() {
	for _, h := range d.orders.take() {
		for _, b := range d.bodies {
			b.giveUp(h.order)
		}
	}
}
