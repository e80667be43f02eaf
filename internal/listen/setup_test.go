package listen_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/listen"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, // goroutine of the server that pgtest keeps for all tests
		goleak.IgnoreAnyFunction("github.com/oarlock-dev/oarlock/internal/pglocal.(*Server).watch"))
}

const patience = 20 * time.Second

// bundle is a database, reached directly and through a proxy that listeners go through.
type bundle struct {
	url, through string
	proxy        *netfault.Proxy
	conn         *pgx.Conn
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := pgtest.Empty(t)
	b := &bundle{url: db.URL, conn: db.Conn(t)}
	b.proxy, b.through = netfault.Through(t, db.URL)
	return b
}

const listenerName = "a listener"

func (b *bundle) listen(t *testing.T, o listen.Options) *listen.Listener {
	t.Helper()
	config, err := pglink.Parse(b.through, pglink.Options{AppName: listenerName})
	if err != nil {
		t.Fatal(err)
	}
	o.Config = config
	l := listen.New(o)
	t.Cleanup(l.Close)
	return l
}

// subscribed returns a subscription for which the server listens already.
func subscribed(t *testing.T, l *listen.Listener, channel string) *listen.Subscription {
	t.Helper()
	s := l.Subscribe(channel)
	waitMissed(t, s)
	return s
}

func (b *bundle) notify(t *testing.T, channel string, payloads ...string) {
	t.Helper()
	for _, payload := range payloads {
		if _, err := b.conn.Exec(t.Context(), "SELECT pg_notify($1, $2)", channel, payload); err != nil {
			t.Fatal(err)
		}
	}
}

func wait(t *testing.T, s *listen.Subscription) listen.Signal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	signal, err := s.Wait(ctx)
	if err != nil {
		t.Fatalf("waiting for a signal: %v", err)
	}
	return signal
}

func waitMissed(t *testing.T, s *listen.Subscription) {
	t.Helper()
	for !wait(t, s).Missed {
	}
}

// heard waits until all of these payloads have come, in any number of signals. If a connection is lost meanwhile, it sends
// the payloads again.
func (b *bundle) heard(t *testing.T, s *listen.Subscription, channel string, payloads ...string) {
	t.Helper()
	b.notify(t, channel, payloads...)
	var got []string
	for len(got) < len(payloads) {
		signal := wait(t, s)
		if signal.Missed {
			got = nil
			b.notify(t, channel, payloads...)
			continue
		}
		got = append(got, signal.Payloads...)
		slices.Sort(got)
		got = slices.Compact(got)
	}
	if slices.Sort(payloads); !slices.Equal(got, payloads) {
		t.Errorf("heard %q, want %q", got, payloads)
	}
}

// backends returns the process IDs of the listeners' backends.
func (b *bundle) backends(t *testing.T) []int {
	t.Helper()
	rows, err := b.conn.Query(t.Context(), "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1", listenerName)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func (b *bundle) terminate(t *testing.T) {
	t.Helper()
	for _, pid := range b.backends(t) {
		if _, err := b.conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
			t.Fatal(err)
		}
	}
}
