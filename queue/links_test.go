package queue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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

// tryPatience is enough for a pooler that lends what it has; one that is later only lends fewer, which these tests allow.
const tryPatience = 500 * time.Millisecond

func TestStore_NeedsFewerConnectionsBesideAPooler(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	if got := openFor(t, queue.Config{URL: f.url}).Needs(); got != queue.Connections(false) {
		t.Errorf("a worker needs %d connections, and keeps %d", got, queue.Connections(false))
	}
	if got := openFor(t, queue.Config{URL: f.url, Direct: f.url, PollOnly: true}).Needs(); got != 7 {
		t.Errorf("a worker that polls, beside a pooler, needs %d connections, want 7", got)
	}
}

func TestRegister_WorksThroughASessionPoolerThatIsJustLargeEnough(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
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
	f := newFleet(t)
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
	if n := value[int](t, f.desk, "SELECT count(*) FROM oarlock.workers"); n != 0 {
		t.Errorf("%d workers are there, refused before", n)
	}
}

// The pool has connections for one worker. A second worker is refused, however long both have been there.
func TestRegister_CountsWhatOthersHave(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
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

// A session of the same login that comes past the pooler takes nothing from its pool.
func TestRegister_CountsNoSessionPastThePooler(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
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

// besides connects by the server's socket, so from another address than all others.
func (f *fleet) besides(t *testing.T) {
	t.Helper()
	config, err := pgx.ParseConfig(f.url)
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.TLSConfig, config.Fallbacks = value[string](t, f.desk, "SHOW unix_socket_directories"), nil, nil
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Skipf("the server has no socket here: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
}
