package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// longestAskPause between two tries to read something of a run. There is no last one: the lease decides.
const longestAskPause = time.Second

// ask reads something of the run. A database that is away says nothing about the run, so it is asked until it answers or
// the claim is lost.
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
	pause := d.worker.pauses()
	pause.InitialInterval, pause.MaxInterval = 10*time.Millisecond, longestAskPause
	return backoff.Retry(ctx, func() (T, error) {
		answer, err := read(ctx)
		if err != nil && !queue.Passing(err) {
			err = backoff.Permanent(err)
		}
		return answer, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(pause))
}
