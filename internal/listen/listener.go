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

// Options say how to listen. Config is required.
type Options struct {
	Config       *pgx.ConnConfig
	Prepare      pglink.Prepare // before each connection; nil: nothing is
	CheckEvery   time.Duration  // how long silence is taken for a live connection; 0: DefaultCheckEvery
	CheckTimeout time.Duration  // how long an answer may take; 0: DefaultCheckTimeout
}

// Defaults of Options.
const (
	DefaultCheckEvery   = 10 * time.Second
	DefaultCheckTimeout = 5 * time.Second
)

// Between tries to connect. A connection that lived longer than the longest pause starts with the first again.
const (
	firstPause   = 30 * time.Millisecond
	longestPause = 1500 * time.Millisecond
)

const maxChannelBytes = 63 // of an identifier in Postgres: it would cut a longer one, and send under the shorter name

// ErrClosed is what Wait returns after Close.
var ErrClosed = errors.New("listener closed")

// Listener is one connection that listens to any number of channels.
type Listener struct {
	options Options
	stop    context.CancelFunc
	done    chan struct{} // closed when the goroutine has ended

	mu          sync.Mutex
	subscribers map[string][]*Subscription // by channel
	changed     bool                       // since the connection last looked at subscribers
	silentUntil time.Time                  // there is to be no connection before; zero: there may be
	interrupt   context.CancelFunc         // ends the wait for a notification; nil while there is none
}

// New starts to listen. It returns at once: what fails is tried again until Close.
func New(o Options) *Listener {
	o.CheckEvery = cmp.Or(o.CheckEvery, DefaultCheckEvery)
	o.CheckTimeout = cmp.Or(o.CheckTimeout, DefaultCheckTimeout)
	o.Config = o.Config.Copy()
	ctx, stop := context.WithCancel(context.Background())
	l := &Listener{options: o, stop: stop, done: make(chan struct{}), subscribers: map[string][]*Subscription{}}
	go l.run(ctx)
	return l
}

// Close ends the connection and lets every Wait return. It may be called more than once.
func (l *Listener) Close() {
	l.stop()
	<-l.done
}

// GiveWay ends the connection, and makes none for d: something that matters more needs its place. Subscribers hear that they may miss
// something.
func (l *Listener) GiveWay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silentUntil = time.Now().Add(d)
	l.change()
}

// silentFor is how long there is to be no connection.
func (l *Listener) silentFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, time.Until(l.silentUntil))
}

// Subscribe begins to listen to a channel. It panics on a name that Postgres would cut: names are made by programs.
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

// change makes the connection look at subscribers, also while it waits. The lock is held.
func (l *Listener) change() {
	l.changed = true
	if l.interrupt != nil {
		l.interrupt()
	}
}

// hasChanged says whether to look at subscribers; if not, stop is called when that changes.
func (l *Listener) hasChanged(stop context.CancelFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed, l.interrupt = false, stop // called late, it stops nothing
	return changed
}

// run keeps a connection until ctx ends. Why one was lost nobody needs to know: subscribers hear that it was.
func (l *Listener) run(ctx context.Context) {
	defer close(l.done)
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = firstPause, 2, longestPause
	for ctx.Err() == nil {
		started := time.Now()
		if err := l.listen(ctx); errors.Is(err, pglink.ErrPooled) {
			<-ctx.Done() // nothing would ever be heard
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

// listen makes a connection and uses it until it breaks.
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

// deliver hands a notification to those who want it.
func (l *Listener) deliver(channel, payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.subscribers[channel] {
		s.gather(payload)
	}
}
