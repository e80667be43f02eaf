package netfault

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"
)

// Side is an end of a connection.
type Side int

// The two ends.
const (
	Client Side = iota
	Server
)

// Message is one message of the Postgres protocol. A client's first one has type 0.
type Message struct {
	From Side
	Type byte
	Body []byte // without type and length; valid during the call only
}

// Match picks messages. It is called with the proxy locked, one message at a time, and must not block.
type Match func(Message) bool

// Completed matches the server's report that a statement with this command tag was executed: "COMMIT", "INSERT 0 1".
func Completed(tag string) Match {
	return func(m Message) bool {
		return m.From == Server && m.Type == 'C' && bytes.Equal(m.Body, append([]byte(tag), 0))
	}
}

// OfType matches every message of a type that one side sends. From the client, 'Q' is a query without arguments, 'B' a
// bind, 'S' a sync. From the server, 'Z' reports that it is ready for the next query.
func OfType(from Side, kind byte) Match {
	return func(m Message) bool { return m.From == from && m.Type == kind }
}

// Action is what happens to a connection when a fault fires.
type Action int

const (
	// Cut drops the message and resets the connection on both sides.
	Cut Action = iota
	// CutHalf passes the first half of the message on, then ends the connection on both sides.
	CutHalf
	// CutAfter passes the message on, then ends the connection on both sides.
	CutAfter
	// HalfSent passes the first half of the message on, then drops everything that its side sends. The connection stays
	// open.
	HalfSent
	// Mute drops the message and everything its side sends after it. The other direction and the connection stay alive.
	Mute
	// Hold keeps back the message and everything after it, until Release.
	Hold
)

// Fault is an action with its trigger. It fires once.
type Fault struct {
	When Match
	Nth  int // which match fires, counted over all connections; 0 and 1: the first
	Do   Action
}

// Injected is a Fault that a proxy has not done yet, or has done.
type Injected struct {
	fault    Fault
	seen     int
	fired    chan struct{}
	released chan struct{}
	release  sync.Once
}

// Fired returns a channel that is closed when the fault has begun. By then the sender has sent the message.
func (f *Injected) Fired() <-chan struct{} { return f.fired }

// MustFire waits until the fault has begun, and fails the test if the fault does not fire in time.
func (f *Injected) MustFire(tb testing.TB) {
	tb.Helper()
	select {
	case <-f.fired:
	case <-time.After(firePatience):
		tb.Fatal("the fault did not fire: no message matched it")
	}
}

const firePatience = 30 * time.Second

// Release lets a Hold go on. A test may call it before the fault fires, and more than once.
func (f *Injected) Release() { f.release.Do(func() { close(f.released) }) }

// Inject adds a fault. If several match one message, the one added first fires.
func (p *Proxy) Inject(f Fault) *Injected {
	injected := &Injected{fault: f, fired: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, injected)
	return injected
}

// next counts a message and returns the fault that it triggers, if any.
func (p *Proxy) next(m Message) *Injected {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.From == Client {
		p.counts.FromClient++
	} else {
		p.counts.FromServer++
	}
	for i, f := range p.faults {
		if !f.fault.When(m) {
			continue
		}
		if f.seen++; f.seen >= f.fault.Nth {
			p.faults = slices.Delete(p.faults, i, i+1)
			close(f.fired)
			return f
		}
	}
	return nil
}
