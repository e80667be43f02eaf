package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pooler is the least that behaves like PgBouncer: it makes up the process id it announces, and lends its few backends
// to clients for a transaction, or for as long as they stay.
type pooler struct {
	tb       testing.TB
	backends chan *pgproto3.Frontend // those that are idle
	sessions bool
}

// Pooled is the way to what address leads to through a pooler, by session or by transaction, of so many connections.
func Pooled(tb testing.TB, address string, size int, sessions bool) string {
	tb.Helper()
	p := &pooler{tb: tb, backends: make(chan *pgproto3.Frontend, size), sessions: sessions}
	for range size {
		p.backends <- takeUp(tb, address)
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

// takeUp makes a connection that speaks the protocol and no more.
func takeUp(tb testing.TB, address string) *pgproto3.Frontend {
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
	return taken.Frontend
}

const madeUpPID = 4_000_000_000

// serve speaks with one client until it leaves.
func (p *pooler) serve(conn net.Conn) {
	defer conn.Close()
	client := pgproto3.NewBackend(conn, conn)
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: madeUpPID, SecretKey: []byte{1, 2, 3, 4}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if client.Flush() != nil {
		return
	}
	var backend *pgproto3.Frontend
	defer func() {
		if backend != nil {
			p.backends <- backend
		}
	}()
	for {
		msg, err := client.Receive()
		if err != nil {
			return
		}
		if _, leaves := msg.(*pgproto3.Terminate); leaves {
			return
		}
		if backend == nil {
			backend = <-p.backends
		}
		backend.Send(msg)
		if !ends(msg) {
			continue
		}
		status, err := relay(backend, client)
		if err != nil {
			p.tb.Errorf("pooler: %v", err)
			return
		}
		if status == 'I' && !p.sessions {
			p.backends <- backend
			backend = nil
		}
	}
}

func ends(msg pgproto3.FrontendMessage) bool {
	switch msg.(type) {
	case *pgproto3.Sync, *pgproto3.Query:
		return true
	}
	return false
}

// relay hands the server's answer to the client, up to the end of it.
func relay(backend *pgproto3.Frontend, client *pgproto3.Backend) (status byte, err error) {
	if err := backend.Flush(); err != nil {
		return 0, fmt.Errorf("ask: %w", err)
	}
	for {
		msg, err := backend.Receive()
		if err != nil {
			return 0, fmt.Errorf("hear: %w", err)
		}
		client.Send(msg)
		if ready, ok := msg.(*pgproto3.ReadyForQuery); ok {
			_ = client.Flush() // that it has left is noticed when it says nothing more
			return ready.TxStatus, nil
		}
	}
}
