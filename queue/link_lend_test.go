package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/queue"
)

// shortFleet is a worker whose login may have fewer connections than the worker keeps.
type shortFleet struct {
	*fleet
	store   *queue.Store
	session *queue.Session
}

// newShortFleet registers a worker, lowers the limit of its login to n, and ends all of its connections.
func newShortFleet(t *testing.T, n int, pollOnly bool) *shortFleet {
	t.Helper()
	c := &shortFleet{fleet: newFleet(t)}
	c.store = openFor(t, queue.Config{URL: c.user(t, "limited", "oarlock_worker"), PollOnly: pollOnly, FewConns: queue.CallConns})
	c.session = c.registerAt(t, c.store)
	c.exec(t, fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", pgx.Identifier{c.db.RoleName("limited")}.Sanitize(), n))
	c.exec(t, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1", c.db.RoleName("limited"))
	return c
}

// succeeds wants a call to succeed, after those by which the session finds out that a connection has ended.
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

// All that a worker asks goes over one connection where its login gets no more.
func TestSession_GoesOnWithOneConnection(t *testing.T) {
	t.Parallel()
	c := newShortFleet(t, 1, true)
	s, runs := c.session, c.ask(t, "plain", 2)
	var claims []*queue.Claim
	succeeds(t, "a poll", func() error {
		polled, err := s.Poll(t.Context(), queue.Want{Free: 2})
		claims = append(claims, polled.Claims...)
		return err
	})
	if got := runsOf(claims); !slices.Equal(got, runs) {
		t.Fatalf("claimed %v, want %v", got, runs)
	}
	chunk := queue.Chunk{Run: runs[0], Attempt: 1, Day: queue.LogDay(dagrun.Time(time.Now().UnixMilli()))}
	for range 2 {
		succeeds(t, "a sign of life", func() error { _, err := s.Renew(t.Context(), queue.Vitals{}); return err })
		succeeds(t, "a load", func() error { _, err := s.Load(t.Context(), claims); return err })
		succeeds(t, "a record", func() error {
			return s.Commit(t.Context(), &queue.Batch{Claim: claims[0], Seen: claims[0].Inbox})
		})
		succeeds(t, "a log", func() error { return s.AppendLogs(t.Context(), []queue.Chunk{chunk}) })
		succeeds(t, "a look", func() error { _, err := s.Look(t.Context(), queue.Load{}); return err })
		succeeds(t, "a sweep", func() error { _, err := s.Sweep(t.Context()); return err })
		succeeds(t, "a poll", func() error { _, err := s.Poll(t.Context(), queue.Want{Free: 1}); return err })
		chunk.Seq++
	}
	if n := value[int](t, c.desk, "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", c.db.RoleName("limited")); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// The connections that listen and that serve calls are given back for the sake of the lease.
func TestRenew_ComesBeforeListening(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*shortFleet) bool{
		"listening": func(c *shortFleet) bool {
			return value[int](t, c.desk, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oarlock listen' AND state = 'idle' AND usename = $1", c.db.RoleName("limited")) == 1
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
