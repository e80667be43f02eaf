package queue_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/queue"
)

// shortFleet is a worker with a login that may have fewer connections than the worker keeps.
type shortFleet struct {
	*sessionBundle
	store   *queue.Store
	session *queue.Session
}

// newShortFleet registers a worker, lowers the limit of its login to n, and ends all of its connections.
func newShortFleet(t *testing.T, n int, pollOnly bool) *shortFleet {
	t.Helper()
	c := &shortFleet{sessionBundle: newSessionBundle(t)}
	c.store = openFor(t, queue.Config{URL: c.user(t, "limited", "oarlock_worker"), PollOnly: pollOnly, FewConns: queue.CallConns})
	c.session = c.registerAt(t, c.store)
	c.exec(t, fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", pgx.Identifier{c.db.RoleName("limited")}.Sanitize(), n))
	c.exec(t, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1", c.db.RoleName("limited"))
	return c
}

// succeeds wants a call to succeed, after the calls by which the session finds out that a connection has ended.
func succeeds(t *testing.T, what string, call func() error) {
	t.Helper()
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("%s: %v", what, err)
		}
	}()
	await.True(t, what, func() bool { err = call(); return err == nil })
}

// All calls of a worker go over one connection if its login gets no more.
func TestSession_GoesOnWithOneConnection(t *testing.T) {
	t.Parallel()
	c := newShortFleet(t, 1, true)
	s, runs := c.session, c.ask(t, "plain", 2)
	var claims []*queue.Claim
	succeeds(t, "a poll", func() error {
		polled, err := s.Poll(t.Context(), queue.Want{Slots: 2, Free: 2})
		claims = append(claims, polled.Claims...)
		return err
	})
	if got := runsOf(claims); !slices.Equal(got, runs) {
		t.Fatalf("claimed %v, want %v", got, runs)
	}
	chunk := queue.Chunk{Run: runs[0], Attempt: 1, Day: queue.LogDay(dagrun.Time(time.Now().UnixMilli()))}
	calls := []struct {
		what string
		call func() error
	}{
		{"a definition", func() error { _, err := s.Definition(t.Context(), claims[0].DAGID, claims[0].Version); return err }},
		{"a sign of life", func() error { _, err := s.Renew(t.Context(), queue.Vitals{}); return err }},
		{"a load", func() error { _, err := s.Load(t.Context(), claims); return err }},
		{"a record", func() error { return s.Commit(t.Context(), &queue.Batch{Claim: claims[0], Seen: claims[0].Inbox}) }},
		{"a log", func() error { return s.AppendLogs(t.Context(), []queue.Chunk{chunk}) }},
		{"a look", func() error { _, err := s.Look(t.Context(), queue.Load{}); return err }},
		{"a sweep", func() error { _, err := s.Sweep(t.Context()); return err }},
		{"a poll", func() error { _, err := s.Poll(t.Context(), queue.Want{Slots: 1, Free: 1}); return err }},
	}
	for _, c := range calls {
		succeeds(t, c.what, c.call)
	}
	before := c.process(t)
	for range 3 {
		for _, c := range calls {
			if err := c.call(); err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		chunk.Seq++
	}
	if after := c.process(t); after != before {
		t.Errorf("the server process was %s, and is %s", before, after)
	}
}

// process returns the only server process of the worker's login.
func (c *shortFleet) process(t *testing.T) string {
	t.Helper()
	return value[string](t, c.clientBundle, "SELECT string_agg(pid || ' of ' || backend_start, ', ') FROM pg_stat_activity WHERE usename = $1", c.db.RoleName("limited"))
}

// A renewal gets the connection before other calls, however many wait for it.
func TestRenew_ComesFirst(t *testing.T) {
	t.Parallel()
	c := newShortFleet(t, 1, true)
	s := c.session
	c.ask(t, "plain", 1)
	var polled queue.Polled
	succeeds(t, "a poll", func() (err error) { polled, err = s.Poll(t.Context(), queue.Want{Slots: 1, Free: 1}); return err })
	renew := func() error { _, err := s.Renew(t.Context(), queue.Vitals{}); return err }
	succeeds(t, "a sign of life", renew)
	enough := make(chan struct{})
	var others sync.WaitGroup
	for _, call := range []func() error{
		func() error {
			return s.Commit(t.Context(), &queue.Batch{Claim: polled.Claims[0], Seen: polled.Claims[0].Inbox})
		},
		func() error { _, err := s.Load(t.Context(), polled.Claims); return err },
		func() error { _, err := s.Poll(t.Context(), queue.Want{Slots: 1, Free: 1}); return err },
	} {
		others.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-enough:
					if n == 0 {
						t.Error("another call never ended")
					}
					return
				default:
				}
				if err := call(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 30 {
		if err := renew(); err != nil {
			t.Error(err)
		}
	}
	close(enough)
	others.Wait()
}

// The session gives up the connections that listen and that serve calls to keep the lease.
func TestRenew_ComesBeforeListening(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*shortFleet) bool{
		"listening": func(c *shortFleet) bool {
			return value[int](t, c.clientBundle, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oarlock listen' AND state = 'idle' AND usename = $1", c.db.RoleName("limited")) == 1
		},
		"a call": func(c *shortFleet) bool {
			_, err := c.store.MissingQueues(t.Context(), []string{"other"})
			return err == nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newShortFleet(t, 1, name == "a call")
			await.True(t, name+" has the only connection", func() bool { return use(c) })
			succeeds(t, "a sign of life", func() error { _, err := c.session.Renew(t.Context(), queue.Vitals{}); return err })
		})
	}
}
