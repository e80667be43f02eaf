package doctor

import (
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/oarlock-dev/oarlock/internal/pgtest"
)

func TestPooler_TellsTheModes(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	cases := map[string]struct {
		sessions bool
		size     int
		status   Status
		words    string
	}{
		"transaction mode":        {false, 3, Warn, "a pooler in transaction mode"},
		"transaction mode of one": {false, 1, Warn, "a pooler in transaction mode"},
		"session mode":            {true, 3, OK, "a pooler in session mode"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, startPooler(t, pgtest.New(t).URL, c.size, c.sessions))
			wantCheck(t, x.check(t.Context(), namedCheck{"pooler", (*examination).pooler}), c.status, c.words)
			if x.sharesBackends == c.sessions {
				t.Errorf("shares backends: %v", x.sharesBackends)
			}
			if x.sharesBackends {
				wantCheck(t, x.listen(t.Context()), Skip, "pooler")
			}
		})
	}
}

func TestRun_WorksThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	report, err := Run(t.Context(), startPooler(t, pgtest.New(t).URL, 2, false), quiet)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Checks {
		if c.Status == Fail && c.Name != "durability" {
			t.Errorf("%+v", c)
		}
	}
}

// pooler is the least that behaves like PgBouncer: it makes up the process id it announces, and lends its few backends
// to clients for a transaction, or for as long as they stay.
type pooler struct {
	t        *testing.T
	backends chan *pgproto3.Frontend // those that are idle
	sessions bool
}

func startPooler(t *testing.T, address string, size int, sessions bool) string {
	t.Helper()
	p := &pooler{t: t, backends: make(chan *pgproto3.Frontend, size), sessions: sessions}
	for range size {
		p.backends <- connect(t, address)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
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
	t.Cleanup(clients.Wait)
	t.Cleanup(func() { listener.Close() })
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.RawQuery = listener.Addr().String(), "sslmode=disable"
	return u.String()
}

func connect(t *testing.T, address string) *pgproto3.Frontend {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
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
			p.t.Errorf("pooler: %v", err)
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
			return ready.TxStatus, client.Flush()
		}
	}
}
