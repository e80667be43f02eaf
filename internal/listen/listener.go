package listen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// Options configure a Listener. Config is required.
type Options struct {
	Config       *pgx.ConnConfig
	Prepare      pglink.Prepare // called before each connection; nil: not called
	CheckEvery   time.Duration  // silence after which the Listener checks the connection; 0: DefaultCheckEvery
	CheckTimeout time.Duration  // time for an answer of the server; 0: DefaultCheckTimeout
}

// Defaults of Options.
const (
	DefaultCheckEvery   = 10 * time.Second
	DefaultCheckTimeout = 5 * time.Second
)

// Pauses between attempts to connect. After a connection that lived longer than longestPause, the pauses start again with
// firstPause.
const (
	firstPause   = 30 * time.Millisecond
	longestPause = 1500 * time.Millisecond
)

const maxChannelBytes = 63 // limit of Postgres for an identifier: it would cut a longer name, and send under the shorter name

// ErrClosed is the error of Wait after Close.
var ErrClosed = errors.New("listener closed")

// Listener is one connection that listens to any number of channels.
type Listener struct {
	options Options
	stop    context.CancelFunc
	done    chan struct{} // closed when the goroutine has ended

	mu          sync.Mutex
	subscribers map[string][]*Subscription // by channel
	changed     bool                       // subscribers changed since the connection last looked
	silentUntil time.Time                  // no connection is made before this time; zero: no limit
	interrupt   context.CancelFunc         // interrupts the wait for a notification; nil while there is none
}

// New starts a Listener, and does not wait for its connection. The Listener tries again after every failure until Close, but stops
// trying behind a pooler in transaction mode. The caller must call Close.
func New(o Options) *Listener {
	o.CheckEvery = cmp.Or(o.CheckEvery, DefaultCheckEvery)
	o.CheckTimeout = cmp.Or(o.CheckTimeout, DefaultCheckTimeout)
	o.Config = o.Config.Copy()
	ctx, stop := context.WithCancel(context.Background())
	l := &Listener{options: o, stop: stop, done: make(chan struct{}), subscribers: map[string][]*Subscription{}}
	go l.run(ctx)
	return l
}

// Close ends the connection, and waits until the goroutine of the Listener has ended. From then on every Wait returns ErrClosed.
// Close may be called more than once.
func (l *Listener) Close() {
	l.stop()
	<-l.done
}

// GiveWay makes the Listener close its connection, and make none until d has passed, because another use of the connection slot is
// more important. It does not wait for that. Subscribers get Missed when the connection closes. A later call replaces the time of
// an earlier one.
func (l *Listener) GiveWay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silentUntil = time.Now().Add(d)
	l.change()
}

// silentFor returns how long the Listener must still wait before it makes a connection, because of GiveWay. 0: it need not wait.
func (l *Listener) silentFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, time.Until(l.silentUntil))
}

// Subscribe adds a subscriber to a channel, and does not wait until the server listens. The subscriber gets Missed once it does.
// The caller must close the Subscription. Subscribe panics if the name is empty or longer than maxChannelBytes, because names come
// from programs and not from users.
func (l *Listener) Subscribe(channel string) *Subscription {
	if channel == "" || len(channel) > maxChannelBytes {
		panic(fmt.Sprintf("listen: channel %q: a name has 1 to %d bytes", channel, maxChannelBytes))
	}
	s := &Subscription{listener: l, channel: channel, ready: make(chan struct{}, 1), closed: make(chan struct{}), payloads: map[string]bool{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribers[channel] = append(l.subscribers[channel], s)
	l.change()
	return s
}

func (l *Listener) unsubscribe(s *Subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := slices.DeleteFunc(l.subscribers[s.channel], func(other *Subscription) bool { return other == s })
	if l.subscribers[s.channel] = rest; len(rest) == 0 {
		delete(l.subscribers, s.channel)
	}
	l.change()
}

// change notes that the subscribers, or the time of GiveWay, have changed. It interrupts the connection if that waits for a
// notification. The caller holds l.mu.
func (l *Listener) change() {
	l.changed = true
	if l.interrupt != nil {
		l.interrupt()
	}
}

// hasChanged reports whether the subscribers, or the time of GiveWay, have changed since the last call, and forgets that they have.
// It keeps stop in any case: the next change calls it, to interrupt the wait that the caller is about to begin.
func (l *Listener) hasChanged(stop context.CancelFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed, l.interrupt = false, stop // a late call of stop has no effect
	return changed
}

// run keeps a connection until ctx ends: it makes a new one after each loss, with growing pauses between failures. Behind a pooler
// in transaction mode it makes no further connection. It drops the errors of lost connections, because subscribers need only
// Missed.
func (l *Listener) run(ctx context.Context) {
	defer close(l.done)
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = firstPause, 2, longestPause
	for ctx.Err() == nil {
		started := time.Now()
		if err := l.listen(ctx); errors.Is(err, pglink.ErrPooled) {
			<-ctx.Done() // this connection would never get a notification
			return
		}
		if time.Since(started) > longestPause {
			pauses.Reset()
		}
		select {
		case <-time.After(max(pauses.NextBackOff(), l.silentFor())):
		case <-ctx.Done():
		}
	}
}

// listen makes one connection, and uses it until it breaks, until GiveWay is called, or until ctx ends. It then signals Missed to
// every subscriber and closes the connection. It returns the error that ended the connection; nil: GiveWay ended it.
func (l *Listener) listen(ctx context.Context) error {
	c, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close(ctx)
	defer l.each((*Subscription).miss)
	for err = c.follow(ctx); err == nil && l.silentFor() == 0; {
		err = c.turn(ctx)
	}
	return err
}

func (l *Listener) each(do func(*Subscription)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, subscribers := range l.subscribers {
		for _, s := range subscribers {
			do(s)
		}
	}
}

// deliver passes a notification to the subscribers of its channel.
func (l *Listener) deliver(channel, payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.subscribers[channel] {
		s.gather(payload)
	}
}
