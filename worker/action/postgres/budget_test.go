package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/worker/action/postgres"
)

// held makes n tasks hold one connection each, until the returned function releases them.
func (y *testBundle) held(a *postgres.Action, n int, connections ...string) (release func()) {
	y.tb.Helper()
	y.exec("SELECT pg_advisory_lock(1)")
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			w := with{"sql": []any{"SELECT pg_advisory_xact_lock_shared(1)"}, "read_only": true} // settles nothing
			if len(connections) > 0 {
				w["connection"] = connections[i%len(connections)]
			}
			if res, _ := y.do(a, w); res.Kind != dagrun.KindNone {
				y.tb.Errorf("%s: %s", res.Kind, res.Reason)
			}
		})
	}
	y.eventually("all hold one", func() bool { return y.waiting() == n })
	return func() { y.exec("SELECT pg_advisory_unlock(1)"); all.Wait() }
}

func (y *testBundle) waiting() int {
	return get[int](y, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
}

// connections returns the connections of tasks.
func (y *testBundle) connections() int {
	return get[int](y, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename LIKE 'tasks%'")
}

func TestBudget_TheTwentySixthWaitsItsTurn(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action(func(c *postgres.Config) { c.Connections["other"] = postgres.Connection{URL: y.tasks} })
	release := y.held(a, 25, "oarlock", "other")
	ctx, cancel := context.WithCancelCause(t.Context())
	began := make(chan string, 3)
	var waiting sync.WaitGroup
	start := func(name string, ctx context.Context, waits int) <-chan dagrun.Result {
		c := newCall(with{"sql": "SELECT 1"})
		c.task.Started = func() { began <- name }
		ended := make(chan dagrun.Result, 1)
		waiting.Go(func() { ended <- a.Execute(ctx, c.task) })
		y.eventually(name+" waits", func() bool { return a.Waiting() == waits })
		return ended
	}
	first := start("first", t.Context(), 1)
	gaveUp := start("gave up", ctx, 2)
	last := start("last", t.Context(), 3)
	cancel(errors.New("stopped: cancel"))
	if res := <-gaveUp; res.Kind != dagrun.KindSQL || !strings.Contains(res.Reason, "stopped: cancel") {
		t.Errorf("%+v", res)
	}
	if n := y.connections(); n != 25 {
		t.Errorf("%d connections", n)
	}
	select {
	case name := <-began:
		t.Errorf("%s did not wait", name)
	default:
	}
	release()
	if a, b := <-first, <-last; a.Kind != dagrun.KindNone || b.Kind != dagrun.KindNone {
		t.Errorf("%+v, %+v", a, b)
	}
	waiting.Wait()
	y.eventually("5 of each are kept", func() bool { return y.connections() <= 10 })
}

func TestBudget_WaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action(func(c *postgres.Config) { c.MaxOpen = 1; c.Connections["other"] = postgres.Connection{URL: y.tasks} })
	release := y.held(a, 1)
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	for i := range 6 {
		c := newCall(with{"sql": "SELECT 1", "connection": []string{"oarlock", "other"}[i%2]})
		c.task.Started = func() { mu.Lock(); defer mu.Unlock(); order = append(order, i) }
		all.Go(func() { a.Execute(t.Context(), c.task) })
		y.eventually("it waits", func() bool { return a.Waiting() == i+1 })
	}
	release()
	all.Wait()
	if got := fmt.Sprint(order); got != "[0 1 2 3 4 5]" {
		t.Errorf("served in order %s", got)
	}
	y.eventually("one is left", func() bool { return y.connections() == 1 })
}

func TestBudget_IdleConnectionsOfOthersMakeRoom(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action(func(c *postgres.Config) { c.MaxOpen = 2; c.Connections["other"] = postgres.Connection{URL: y.tasks} })
	y.held(a, 2)()
	release := y.held(a, 2, "other")
	y.eventually("two are closed", func() bool { return y.connections() == 2 })
	release()
}

func TestBudget_ClosesWhatIsIdleOrOld(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*postgres.Config){
		"idle": func(c *postgres.Config) { c.IdleTime = 20 * time.Millisecond },
		"old":  func(c *postgres.Config) { c.Lifetime = 20 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			a := y.action(change)
			y.held(a, 3)()
			y.eventually("none is left", func() bool { return y.connections() == 0 })
		})
	}
}

func TestBudget_AConnectionThatDiedIsMadeAnew(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	y.held(a, 3)()
	y.exec("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'oarlock' AND datname = current_database() AND query LIKE '%postgres/reset%'")
	for range 3 {
		if res, _ := y.do(a, with{"sql": "SELECT 1"}); res.Kind != dagrun.KindNone {
			t.Errorf("%+v", res)
		}
	}
}

func TestClose_EndsWaitersAndWhatIsIdle(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action(func(c *postgres.Config) { c.MaxOpen = 1 })
	release := y.held(a, 1)
	ended := make(chan dagrun.Result, 1)
	c := newCall(with{"sql": "SELECT 1"})
	go func() { ended <- a.Execute(t.Context(), c.task) }()
	y.eventually("it waits", func() bool { return a.Waiting() == 1 })
	a.Close()
	if res := <-ended; res.Kind != dagrun.KindSQL || !strings.Contains(res.Reason, "closed its connections") {
		t.Errorf("%+v", res)
	}
	release()
	a.Close()
	y.eventually("none is left", func() bool { return y.connections() == 0 })
}
