package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

func openFor(t *testing.T, c queue.Config) *queue.Store {
	t.Helper()
	store, err := queue.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// tryPatience is enough for a pooler that lends what it has. A slower pooler only lends fewer, which these tests allow.
const tryPatience = 500 * time.Millisecond

func TestStore_NeedsFewerConnectionsBesideAPooler(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	if got := openFor(t, queue.Config{URL: f.url}).Needs(); got != queue.Connections(false) {
		t.Errorf("a worker needs %d connections, and keeps %d", got, queue.Connections(false))
	}
	if got := openFor(t, queue.Config{URL: f.url, Direct: f.url, PollOnly: true}).Needs(); got != 7 {
		t.Errorf("a worker that polls, beside a pooler, needs %d connections, want 7", got)
	}
}

func TestRegister_WorksThroughASessionPoolerThatIsJustLargeEnough(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	url := pgtest.Pooled(t, f.url, queue.Connections(false), true)
	run := f.ask(t, "plain", 1)
	store := openFor(t, queue.Config{URL: url, FewConns: queue.CallConns})
	s := f.registerAt(t, store)
	claims := poll(t, s, 1).Claims
	if got := runsOf(claims); !slices.Equal(got, run) {
		t.Fatalf("claimed %v, want %v", got, run)
	}
	look(t, s)
	sweep(t, s)
	if _, err := s.Load(t.Context(), claims); err != nil {
		t.Error(err)
	}
	if err := s.Commit(t.Context(), &queue.Batch{Claim: claims[0], Seen: claims[0].Inbox}); err != nil {
		t.Error(err)
	}
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Error(err)
	}
	if _, err := s.Hear(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := store.Get(t.Context(), run[0]); err != nil {
		t.Error(err)
	}
}

func TestRegister_RefusesAPoolThatIsTooSmall(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	url := pgtest.Pooled(t, f.url, 5, true)
	store := openFor(t, queue.Config{URL: url, FewConns: queue.CallConns})
	store.SetShortagePatience(0, tryPatience)
	_, err := store.Register(t.Context(), describe())
	if !errors.Is(err, queue.ErrWaiting) || !queue.Passing(err) {
		t.Fatalf("at first: %v, want a pooler that may be late", err)
	}
	_, err = store.Register(t.Context(), describe())
	short, ok := errors.AsType[*queue.ShortError](err)
	if !ok || queue.Passing(err) || errors.Is(err, queue.ErrWaiting) {
		t.Fatalf("at last: %v, want a refusal", err)
	}
	if short.Lent >= short.Needs || short.Needs != queue.Connections(false) || short.Size < short.Needs {
		t.Errorf("%+v", short)
	}
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.workers"); n != 0 {
		t.Errorf("%d workers are there, refused before", n)
	}
}

// The pool has connections for one worker. A second worker is refused, however long both have been there.
func TestRegister_CountsWhatOthersHave(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	url := pgtest.Pooled(t, f.url, queue.Connections(false)+4, true)
	f.registerAt(t, openFor(t, queue.Config{URL: url, FewConns: queue.CallConns}))
	second := openFor(t, queue.Config{URL: url, FewConns: queue.CallConns})
	second.SetShortagePatience(0, tryPatience)
	var err error
	for range 2 {
		_, err = second.Register(t.Context(), describe())
	}
	if short, ok := errors.AsType[*queue.ShortError](err); !ok || queue.Passing(err) || short.Lent < 1 || short.Lent > 5 {
		t.Errorf("%v", err)
	}
}

// A session of the same login that connects past the pooler takes nothing from the pooler's pool.
func TestRegister_CountsNoSessionPastThePooler(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	const pool, past = 5, 20
	for range past {
		f.besides(t)
	}
	store := openFor(t, queue.Config{URL: pgtest.Pooled(t, f.url, pool, true), FewConns: queue.CallConns})
	store.SetShortagePatience(0, tryPatience)
	_, err := store.Register(t.Context(), describe())
	short, ok := errors.AsType[*queue.ShortError](err)
	if !ok || short.Size < short.Needs || short.Size > short.Needs+pool {
		t.Errorf("%+v (%v), want at most %d more than it needs", short, err, pool)
	}
}

// A worker that gets only some of its connections would claim runs, and hold them without ever reading them.
func TestRegister_WaitsForAllConnectionsOfAServer(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	role := pgx.Identifier{f.db.RoleName("limited")}.Sanitize()
	store := openFor(t, queue.Config{URL: f.user(t, "limited", "oarlock_worker"), FewConns: queue.CallConns})
	limit := func(n int) {
		t.Helper()
		if _, err := f.conn.Exec(t.Context(), fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", role, n)); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n < queue.Connections(false); n++ {
		limit(n)
		want := fmt.Sprintf("the database gives %d of the 10 connections that this worker needs: too many connections for role %s", n, role)
		await.True(t, want, func() bool { // the server may count an ended one for a moment longer
			_, err := store.Register(t.Context(), describe())
			short, ok := errors.AsType[*queue.ShortError](err)
			if !ok || !errors.Is(err, queue.ErrWaiting) || !queue.Passing(err) {
				t.Fatalf("with %d: %v, want a wait", n, err)
			}
			return short.Error() == want
		})
		if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.workers"); n != 0 {
			t.Fatalf("%d workers are there", n)
		}
		f.alone(t, "limited")
	}
	limit(queue.Connections(false))
	run := f.ask(t, "plain", 1)
	s := f.registerAt(t, store)
	claims := poll(t, s, 1).Claims
	if got := runsOf(claims); !slices.Equal(got, run) {
		t.Fatalf("claimed %v, want %v", got, run)
	}
	if _, err := s.Load(t.Context(), claims); err != nil {
		t.Error(err)
	}
}

// alone waits until a login has no connection. The server drops one a moment after its client has.
func (f *sessionBundle) alone(t *testing.T, login string) {
	t.Helper()
	await.True(t, "no connection of "+login, func() bool {
		return value[int](t, f.clientBundle, "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", f.db.RoleName(login)) == 0
	})
}

// besides connects by the server's socket, so from another address than all others.
func (f *sessionBundle) besides(t *testing.T) {
	t.Helper()
	config, err := pgx.ParseConfig(f.url)
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.TLSConfig, config.Fallbacks = value[string](t, f.clientBundle, "SHOW unix_socket_directories"), nil, nil
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Skipf("the server has no socket here: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
}
