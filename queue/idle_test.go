package queue_test

import (
	"context"
	"strconv"
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

// counted returns a store that counts all statements: those of its pool, and those of its sessions' own connections.
func (f *sessionBundle) counted(tb testing.TB) (*queue.Store, *tally) {
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

// calls counts the calls of a session that has nothing to do.
type calls struct{ looks, polls, sweeps, renewals int }

// A session has nothing to do for a minute of the test's clock. It looks, sweeps and renews at its intervals, and polls when its
// pace says so. While looks say that nothing is due, PollInterval alone is no reason to poll.
func idleMinute(t *testing.T, s *queue.Session, clock *clock) (n calls) {
	t.Helper()
	const renewEvery = 5 * time.Second
	var pace queue.Pace
	var nextLook, nextPoll time.Duration
	for nextSweep, nextRenewal := queue.SweepInterval, renewEvery; clock.now() < time.Minute; {
		if clock.now() >= nextRenewal {
			n.renewals++
			if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
				t.Fatal(err)
			}
			nextRenewal += renewEvery
		}
		if clock.now() >= nextLook {
			n.looks++
			if looked := look(t, s); looked.Sweep || looked.Due {
				t.Fatalf("an idle worker has something to do: %+v, %s", looked, s.Reasons())
			}
			nextLook += queue.LookInterval
		}
		if clock.now() >= nextSweep {
			n.sweeps++
			sweep(t, s)
			nextSweep += queue.SweepInterval
		}
		if clock.now() >= nextPoll {
			n.polls++
			if nextPoll = clock.now() + pace.After(poll(t, s, 10)); nextPoll == clock.now()+queue.PollInterval {
				nextPoll = time.Hour
			}
		}
		clock.pass(min(nextLook, nextPoll, nextSweep, nextRenewal) - clock.now())
	}
	return n
}

func mustIdle(t *testing.T, statements int64, n calls) {
	t.Helper()
	t.Logf("%d statements in a minute, for %+v", statements, n)
	if statements > 2*60 || statements < int64(n.looks+n.polls+n.sweeps+n.renewals) || n.looks != 60 || n.polls != 9 || n.sweeps != 39 || n.renewals != 11 {
		t.Errorf("%d statements in a minute, for %+v: want a look a second, and at most two statements", statements, n)
	}
}

// warm makes a session do its hourly work, and gives it a clock.
func warm(t *testing.T, s *queue.Session) *clock {
	t.Helper()
	c := new(clock)
	s.SetClock(c.now)
	turn(t, s, 10)
	sweep(t, s)
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestIdle_SendsAtMostTwoStatementsASecond(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	store, sent := f.counted(t)
	s := f.registerAt(t, store)
	clock := warm(t, s)
	sent.n.Store(0)
	n := idleMinute(t, s, clock)
	mustIdle(t, sent.n.Load(), n)
}

func TestIdle_EachCallSendsOneStatement(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	store, sent := f.counted(t)
	s := f.registerAt(t, store)
	warm(t, s)
	for name, call := range map[string]func(){
		"look": func() { look(t, s) }, "sweep": func() { sweep(t, s) }, "poll": func() { poll(t, s, 10) }, "poll for nothing": func() { poll(t, s, 0) },
	} {
		sent.n.Store(0)
		if call(); sent.n.Load() != 1 {
			t.Errorf("a %s with nothing to do sends %d statements", name, sent.n.Load())
		}
	}
}

func TestIdle_TheServerCountsNoMoreThanThat(t *testing.T) {
	t.Parallel()
	o, _ := alone(t, map[string]string{"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_utility": "on"})
	s := o.session(t, "a")
	clock := warm(t, s)
	o.exec(t, "CREATE EXTENSION pg_stat_statements")
	o.exec(t, "SELECT pg_stat_statements_reset()")
	n := idleMinute(t, s, clock)
	counted, err := strconv.ParseInt(o.text(t, "SELECT sum(calls)::text FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	mustIdle(t, counted, n)
}
