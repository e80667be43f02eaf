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

// OfType matches every message of a type that one side sends: 'Q' is a query without arguments, 'B' a bind, 'S' a
// sync of the client; 'Z' of the server says that it is ready for the next.
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
	// HalfSent passes the first half of the message on, then drops what its side sends; the connection stays open.
	HalfSent
	// Mute drops the message and everything its side sends after it; the other direction and the connection live on.
	Mute
	// Hold keeps the message, and all behind it, until Release.
	Hold
)

// Fault says when to do what. It fires once.
type Fault struct {
	When Match
	Nth  int // the how-manieth match fires, counted over all connections; 0 and 1 mean the first
	Do   Action
}

// Injected is a Fault that a proxy waits to do.
type Injected struct {
	fault    Fault
	seen     int
	fired    chan struct{}
	released chan struct{}
	release  sync.Once
}

// Fired is closed when the fault has begun. The server has sent the message by then, or the client has.
func (f *Injected) Fired() <-chan struct{} { return f.fired }

// MustFire waits until the fault has begun, and fails the test when it does not come to that.
func (f *Injected) MustFire(tb testing.TB) {
	tb.Helper()
	select {
	case <-f.fired:
	case <-time.After(firePatience):
		tb.Fatal("the fault did not fire: no message matched it")
	}
}

const firePatience = 30 * time.Second

// Release lets a Hold go on. It may be called before the fault fires, and more than once.
func (f *Injected) Release() { f.release.Do(func() { close(f.released) }) }

// Inject adds a fault. Of several that match one message, the one added first fires.
func (p *Proxy) Inject(f Fault) *Injected {
	injected := &Injected{fault: f, fired: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, injected)
	return injected
}

// next counts a message and returns the fault that it sets off, if any.
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
