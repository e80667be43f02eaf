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

// New starts a Listener. It returns at once: the Listener tries again after every failure, until Close.
func New(o Options) *Listener {
	o.CheckEvery = cmp.Or(o.CheckEvery, DefaultCheckEvery)
	o.CheckTimeout = cmp.Or(o.CheckTimeout, DefaultCheckTimeout)
	o.Config = o.Config.Copy()
	ctx, stop := context.WithCancel(context.Background())
	l := &Listener{options: o, stop: stop, done: make(chan struct{}), subscribers: map[string][]*Subscription{}}
	go l.run(ctx)
	return l
}

// Close ends the connection, and every Wait returns ErrClosed. It may be called more than once.
func (l *Listener) Close() {
	l.stop()
	<-l.done
}

// GiveWay closes the connection and makes none for d, because another use of the connection slot is more important.
// Subscribers get Missed.
func (l *Listener) GiveWay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silentUntil = time.Now().Add(d)
	l.change()
}

// silentFor returns how long no connection may be made.
func (l *Listener) silentFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, time.Until(l.silentUntil))
}

// Subscribe begins to listen to a channel. It panics on a name that Postgres would cut, because names come from programs and
// not from users.
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

// change has the connection look at the subscribers, even while it waits. The caller holds the lock.
func (l *Listener) change() {
	l.changed = true
	if l.interrupt != nil {
		l.interrupt()
	}
}

// hasChanged reports whether subscribers have changed since the last call. It keeps stop, to be called at the next change.
func (l *Listener) hasChanged(stop context.CancelFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed, l.interrupt = false, stop // a late call of stop has no effect
	return changed
}

// run keeps a connection until ctx ends. It drops the errors of lost connections: subscribers need only Missed.
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

// listen makes a connection and uses it until the connection breaks.
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
