package pgtest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Pooler is a minimal stand-in for PgBouncer, for tests that must not depend on a package of the system. It announces an
// invented process id, refuses parameters at the start of a connection, and lends its few backends to clients for a
// transaction or for a session.
type Pooler struct {
	Size     int
	Sessions bool // lends by session; else by transaction
	Ignores  bool // ignores all parameters at the start, as with a long ignore_startup_parameters
}

// Pooled returns a URL that leads to address through a pooler with so many connections, by session or by transaction.
func Pooled(tb testing.TB, address string, size int, sessions bool) string {
	tb.Helper()
	return Pooler{Size: size, Sessions: sessions}.Start(tb, address)
}

// Start runs the pooler in front of the server of address until the test ends, and returns a URL that leads through it.
func (o Pooler) Start(tb testing.TB, address string) string {
	tb.Helper()
	p := &pooler{Pooler: o, tb: tb}
	p.some = sync.NewCond(&p.mu)
	for range o.Size {
		p.put(takeUp(tb, address))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var clients sync.WaitGroup
	clients.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			clients.Go(func() { p.serve(client) })
		}
	})
	tb.Cleanup(clients.Wait)
	tb.Cleanup(func() { listener.Close() })
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host, u.RawQuery = listener.Addr().String(), "sslmode=disable"
	return u.String()
}

type pooler struct {
	Pooler

	tb testing.TB

	mu   sync.Mutex
	some *sync.Cond
	idle []*lent // the one that was used last is at the end, and is lent next
}

func (p *pooler) put(b *lent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, b)
	p.some.Signal()
}

// take waits for a free backend.
func (p *pooler) take() *lent {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) == 0 {
		p.some.Wait()
	}
	last := len(p.idle) - 1
	b := p.idle[last]
	p.idle = p.idle[:last]
	return b
}

// lent is a backend that clients borrow.
type lent struct {
	*pgproto3.Frontend

	status byte // transaction status of the backend
}

// takeUp connects to the server. The connection only speaks the protocol.
func takeUp(tb testing.TB, address string) *lent {
	tb.Helper()
	conn, err := pgconn.Connect(tb.Context(), address)
	if err != nil {
		tb.Fatal(err)
	}
	taken, err := conn.Hijack()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		taken.Frontend.Send(&pgproto3.Terminate{})
		_ = taken.Frontend.Flush()
		taken.Conn.Close()
	})
	return &lent{Frontend: taken.Frontend, status: idleStatus}
}

const (
	madeUpPID  = 4_000_000_000
	idleStatus = 'I'
)

// tracked lists the parameters that PgBouncer accepts at the start of a connection.
var tracked = []string{"user", "database", "client_encoding", "DateStyle", "datestyle", "TimeZone", "timezone", "standard_conforming_strings", "application_name"}

// refused returns a parameter that the client should not have sent; "": there is none.
func (p *pooler) refused(start pgproto3.FrontendMessage) string {
	m, ok := start.(*pgproto3.StartupMessage)
	if !ok || p.Ignores {
		return ""
	}
	for name := range m.Parameters { // PgBouncer names one at a time, too
		if !slices.Contains(tracked, name) {
			return name
		}
	}
	return ""
}

// serve serves one client until it leaves.
func (p *pooler) serve(conn net.Conn) {
	defer conn.Close()
	client := pgproto3.NewBackend(conn, conn)
	start, err := client.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if name := p.refused(start); name != "" {
		client.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name})
		_ = client.Flush()
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: madeUpPID, SecretKey: []byte{1, 2, 3, 4}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: idleStatus})
	if client.Flush() != nil {
		return
	}
	s := serving{pooler: p, client: client}
	defer s.giveBack()
	for err == nil {
		err = s.hear()
	}
}

// serving is the state of one client.
type serving struct {
	*pooler

	client  *pgproto3.Backend
	backend *lent // nil: the client has borrowed none
}

var errLeft = errors.New("the client left")

// hear handles one message of the client.
func (s *serving) hear() error {
	msg, err := s.client.Receive()
	if err != nil {
		return err
	}
	if _, leaves := msg.(*pgproto3.Terminate); leaves {
		return errLeft
	}
	if s.backend == nil {
		s.backend = s.take()
	}
	s.backend.Send(msg)
	if !ends(msg) {
		return nil
	}
	if err := s.relay(); err != nil {
		s.tb.Errorf("pooler: %v", err)
		return err
	}
	if s.backend.status == idleStatus && !s.Sessions {
		s.put(s.backend)
		s.backend = nil
	}
	return s.client.Flush() // only now, because the client may next ask on another connection
}

// giveBack resets the backend for the next client, as server_reset_query does in session mode.
func (s *serving) giveBack() {
	if s.backend == nil {
		return
	}
	s.client = nil
	for _, reset := range []pgproto3.FrontendMessage{&pgproto3.Sync{}, &pgproto3.Query{String: "ROLLBACK"}, &pgproto3.Query{String: "DISCARD ALL"}} {
		s.backend.Send(reset)
		if err := s.relay(); err != nil {
			s.tb.Errorf("pooler: %v", err)
			break
		}
	}
	s.put(s.backend)
}

func ends(msg pgproto3.FrontendMessage) bool {
	switch msg.(type) {
	case *pgproto3.Sync, *pgproto3.Query:
		return true
	}
	return false
}

// relay collects the server's answer for the client, up to the end of the answer.
func (s *serving) relay() error {
	if err := s.backend.Flush(); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	for {
		msg, err := s.backend.Receive()
		if err != nil {
			return fmt.Errorf("hear: %w", err)
		}
		ready, isLast := msg.(*pgproto3.ReadyForQuery)
		if s.client != nil {
			s.client.Send(msg)
		}
		if isLast {
			s.backend.status = ready.TxStatus
			return nil
		}
	}
}
