package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/queue"
)

// tally counts the statements that connections send.
type tally struct{ n atomic.Int64 }

func (c *tally) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *tally) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted is a store all of whose statements are counted: those of its pool, and of the sessions' own connections.
func (f *fleet) counted(tb testing.TB) (*queue.Store, *tally) {
	tb.Helper()
	config, err := pgxpool.ParseConfig(f.url)
	if err != nil {
		tb.Fatal(err)
	}
	c := new(tally)
	config.ConnConfig.Tracer = c
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	store, err := queue.Open(tb.Context(), queue.Config{Pool: pool})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(store.Close)
	return store, c
}

// A minute of a session with nothing to do, by the clock of the test: it polls when its pace says so, and renews every
// five seconds.
func TestIdle_SendsAtMostTwoStatementsASecond(t *testing.T) {
	t.Parallel()
	const (
		minute     = time.Minute
		renewEvery = 5 * time.Second
	)
	f := newFleet(t)
	store, sent := f.counted(t)
	s := f.registerAt(t, store)
	var clock clock
	s.SetClock(clock.now)
	poll(t, s, 10) // reads its lanes, and does what is done once an hour
	if _, err := s.Renew(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	sent.n.Store(0)
	var pace queue.Pace
	polls := 0
	for nextPoll, nextRenewal := time.Duration(0), renewEvery; clock.now() < minute; {
		if clock.now() >= nextRenewal {
			if _, err := s.Renew(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			nextRenewal += renewEvery
		}
		if clock.now() >= nextPoll {
			polls++
			nextPoll = clock.now() + pace.After(poll(t, s, 10))
		}
		clock.pass(min(nextPoll, nextRenewal) - clock.now())
	}
	t.Logf("%d statements in a minute, %d of them polls", sent.n.Load(), polls)
	if n := sent.n.Load(); n > 2*60 || n < 60 || polls < 60 {
		t.Errorf("%d statements in a minute, %d of them polls: want one a second, and at most two statements", n, polls)
	}
}
