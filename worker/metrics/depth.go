package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	depthEvery    = 5 * time.Second        // how old an answer may be
	depthTimeout  = 500 * time.Millisecond // how long one scrape waits for the database
	scrapeTimeout = 10 * time.Second
)

// depth keeps what the database said of the queue, for all who look. A failure is kept, too: while the database is away
// only one scrape in a while waits for it.
type depth struct {
	asking chan struct{} // holds one token: whoever asks

	mu     sync.Mutex
	at     time.Time // when it was asked last; zero: never
	scale  queue.Scale
	known  bool
	errors int64
}

func newDepth() *depth {
	d := &depth{asking: make(chan struct{}, 1)}
	d.asking <- struct{}{}
	return d
}

// ask is the last answer, a new one if that is old. While another asks, nobody waits.
func (d *depth) ask(scale func(context.Context) (queue.Scale, error)) (now queue.Scale, known bool, errors int64) {
	select {
	case <-d.asking:
		defer func() { d.asking <- struct{}{} }()
		if d.isOld() {
			d.renew(scale)
		}
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.scale, d.known, d.errors
}

func (d *depth) isOld() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at.IsZero() || time.Since(d.at) >= depthEvery
}

func (d *depth) renew(scale func(context.Context) (queue.Scale, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), depthTimeout)
	defer cancel()
	answer, err := scale(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.scale, d.known = time.Now(), answer, err == nil
	if err != nil {
		d.errors++
	}
}
