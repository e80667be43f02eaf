package netfault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy passes connections on to one server, and breaks them on request.
type Proxy struct {
	network, server string
	listener        net.Listener
	done            chan struct{}
	pumps           sync.WaitGroup

	mu      sync.Mutex
	links   map[*link]bool
	faults  []*Injected
	delay   time.Duration
	refuse  bool
	cuts    int           // how often CutAll was called
	thawed  chan struct{} // closed while nothing is frozen
	counts  Counts
	stopped bool
}

// Counts counts what went through a Proxy so far.
type Counts struct {
	Accepted   int // connections taken
	Open       int // connections alive
	FromClient int // messages
	FromServer int
}

// Start makes a proxy to server, which is a "host:port" or the path of a unix socket. It closes the proxy when the test
// ends.
func Start(tb testing.TB, server string) *Proxy {
	tb.Helper()
	p, err := New(server)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// New makes a proxy to server that listens on a free port of the loopback address until Close.
func New(server string) (*Proxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a fault proxy: %w", err)
	}
	p := &Proxy{
		network: "tcp", server: server, listener: listener,
		done: make(chan struct{}), links: map[*link]bool{}, thawed: make(chan struct{}),
	}
	if strings.HasPrefix(server, "/") {
		p.network = "unix"
	}
	close(p.thawed)
	p.pumps.Go(p.accept)
	return p, nil
}

// Addr returns the address for clients, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Port returns the port of Addr.
func (p *Proxy) Port() uint16 {
	_, port, _ := net.SplitHostPort(p.Addr())
	n, _ := strconv.ParseUint(port, 10, 16)
	return uint16(n)
}

// Close ends all connections and waits until all goroutines of the proxy have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.done)
		_ = p.listener.Close()
	}
	p.mu.Unlock()
	p.CutAll()
	p.pumps.Wait()
}

// CutAll resets every open connection, on both sides. A connection that was accepted and not yet passed on ends as well.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts++
	for l := range p.links {
		l.reset()
	}
}

// Refuse ends new connections at once, like a live address with a server that is down. Open connections go on.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Freeze lets nothing through in either direction, like a lost network. Connections stay open, and new ones hang.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
		p.thawed = make(chan struct{})
	default:
	}
}

// Thaw lets everything flow again, including messages that were held back.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
	default:
		close(p.thawed)
	}
}

// SetDelay holds every message for d, in both directions.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Counts returns what went through so far.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client left before the proxy reached the server
		}
		p.pumps.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	cuts, ok := p.take()
	if !ok {
		_ = client.Close()
		return
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.Dial(p.network, p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server}
	if !p.add(l, cuts) {
		l.close()
		return
	}
	defer p.remove(l)
	l.run()
}

const dialTimeout = 5 * time.Second

// take counts a connection. It returns how many cuts there were before, and whether the connection may go on.
func (p *Proxy) take() (cuts int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Accepted++
	return p.cuts, !p.refuse
}

// add makes CutAll reach l. It returns false if CutAll was called since take returned cuts.
func (p *Proxy) add(l *link, cuts int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || p.cuts != cuts {
		return false
	}
	p.links[l] = true
	p.counts.Open++
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	p.counts.Open--
}
