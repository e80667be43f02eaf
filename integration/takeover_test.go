package integration

import (
	"flag"
	"fmt"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// `make takeover` measures how long it takes until other workers go on (P13). Other tests show that they do go on: after
// kills, stops, outages, cut networks, and a failover in the runbook.
var takeoverTrials = flag.Int("takeover.trials", 0, "how often each takeover is measured")

// setupTakeover is setup for the tests of `make takeover`, which skip otherwise.
func setupTakeover(t *testing.T) *testBundle {
	t.Helper()
	onlyMeasured(t)
	return setup(t)
}

func onlyMeasured(t *testing.T) {
	t.Helper()
	if *takeoverTrials == 0 {
		t.Skip("measured by make takeover")
	}
}

const takeoverTTL = 3 * time.Second

var takeoverSettings = []string{"lease_ttl=3s"}

// relay is a DAG with a first step that ends once the test lets it, and a second step that follows.
const relay = `
name: relay
params: [{name: n, type: integer, required: true}]
steps:
  - {id: a, run: '. $DIR/lib; see start; hold go$PARAM_N; see end'}
  - {id: b, depends: [a], run: '. $DIR/lib; see start'}
`

// relayed makes a run and waits until its first step runs.
func (b *testBundle) relayed(t *testing.T, n int) queue.RunID {
	t.Helper()
	b.put(t, relay)
	run := b.enqueue(t, "relay", map[string]any{"n": n})
	b.untilSeen(t, run, "tick a#1")
	return run
}

// letGo lets the first step of a run end.
func (b *testBundle) letGo(t *testing.T, n int) { t.Helper(); b.write(t, fmt.Sprint("go", n), "") }

// done waits for the end of a run.
func (b *testBundle) done(t *testing.T, run queue.RunID) {
	t.Helper()
	b.untilOver(t, run)
	if got, want := b.shown(t, run), "succeeded a=succeeded b=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.once(t, run, "start b")
	b.checkEpochs(t)
}

// measure repeats a trial, and fails if the median is above a bound that even a busy machine meets.
func measure(t *testing.T, what string, bound time.Duration, try func(n int) time.Duration) {
	t.Helper()
	var all []time.Duration
	for n := range max(*takeoverTrials, 1) {
		all = append(all, try(n))
		t.Logf("trial %d: %s: %v", n, what, all[n])
	}
	if median := figures(t, what, all); median > bound {
		t.Errorf("%s: %v, want %v at the most", what, median, bound)
	}
}

func TestTakeover_AfterKillOfTheDriverProcess(t *testing.T) {
	b := setupTakeover(t)
	measure(t, "kill -9 of the driver process until its run goes on", 3*prompt, func(n int) time.Duration {
		w := b.worker(t, fmt.Sprint("w", n))
		run := b.relayed(t, n)
		_, pid := b.driver(t, fmt.Sprint("w", n))
		began := time.Now()
		signal(t, syscall.SIGKILL, pid)
		b.untilSeen(t, run, "start a#2")
		took := time.Since(began)
		b.letGo(t, n)
		b.done(t, run)
		w.leave(t)
		return took
	})
}

func TestTakeover_AfterSIGTERM(t *testing.T) {
	b := setupTakeover(t)
	measure(t, "SIGTERM: from the end of the last running task until another worker goes on", 3*prompt, func(n int) time.Duration {
		w := b.worker(t, fmt.Sprint("w", n))
		run := b.relayed(t, n)
		other := b.worker(t, fmt.Sprint("other", n))
		b.driver(t, fmt.Sprint("other", n))
		signal(t, syscall.SIGTERM, w.Process.Pid)
		until(t, "it drains", func() bool { return b.live(t) == fmt.Sprint("other", n) })
		began := time.Now()
		b.letGo(t, n)
		b.untilSeen(t, run, "start b")
		took := time.Since(began)
		b.done(t, run)
		w.exit(t)
		other.stop(t)
		return took
	})
}

func TestTakeover_AfterACutNetwork(t *testing.T) {
	b := setupTakeover(t)
	near := b.url
	measure(t, fmt.Sprintf("network cut until another worker goes on, lease %v", takeoverTTL), 4*takeoverTTL, func(n int) time.Duration {
		proxy, through := netfault.Through(t, near)
		b.url = through
		w := b.worker(t, fmt.Sprint("w", n), takeoverSettings...)
		run := b.relayed(t, n)
		b.url = near
		other := b.worker(t, fmt.Sprint("other", n), takeoverSettings...)
		b.driver(t, fmt.Sprint("other", n))
		began := time.Now()
		proxy.Freeze()
		b.untilSeen(t, run, "start a#2")
		took := time.Since(began)
		b.letGo(t, n)
		b.done(t, run)
		proxy.Thaw()
		w.stop(t)
		other.stop(t)
		return took
	})
}

func TestTakeover_AfterLossOfGuardAndDriverProcess(t *testing.T) {
	b := setupTakeover(t)
	measure(t, fmt.Sprintf("guard and driver process killed until another worker goes on, lease %v", takeoverTTL), 4*takeoverTTL, func(n int) time.Duration {
		w := b.worker(t, fmt.Sprint("w", n), takeoverSettings...)
		run := b.relayed(t, n)
		id, pid := b.driver(t, fmt.Sprint("w", n))
		other := b.worker(t, fmt.Sprint("other", n), takeoverSettings...)
		b.driver(t, fmt.Sprint("other", n))
		began := time.Now()
		killAll(t, w.Process.Pid, pid)
		b.untilSeen(t, run, "start a#2")
		took := time.Since(began)
		for _, orphan := range carriers(id) { // as documented: no guard is left to end them
			_ = syscall.Kill(orphan, syscall.SIGKILL)
		}
		b.letGo(t, n)
		b.untilOver(t, run)
		b.once(t, run, "start b")
		other.stop(t)
		return took
	})
}

// The running task notices nothing.
func TestTakeover_AfterAPostgresRestart(t *testing.T) {
	onlyMeasured(t)
	b, node := setupOn(t, nil)
	b.worker(t, "w")
	measure(t, "Postgres restarted: from its first answer until the next step starts", 3*prompt, func(n int) time.Duration {
		run := b.relayed(t, n)
		node.Stop(t)
		b.letGo(t, n)
		b.untilSeen(t, run, "end a#1")
		node.Start(t)
		began := time.Now()
		b.untilSeen(t, run, "start b")
		took := time.Since(began)
		b.done(t, run)
		b.once(t, run, "start a")
		return took
	})
}

// With a synchronous standby no ended task runs again.
func TestTakeover_AfterPromotionOfAStandby(t *testing.T) {
	onlyMeasured(t)
	measurePromotion(t, "synchronous standby promoted: from its first write until the next step starts", "sync", nil, func(t *testing.T, b *testBundle, n int, primary, standby *pgcluster.Node) time.Duration {
		run := b.relayed(t, n)
		primary.Crash(t)
		b.letGo(t, n)
		b.untilSeen(t, run, "end a#1")
		standby.Promote(t)
		began := time.Now()
		b.untilSeen(t, run, "start b")
		took := time.Since(began)
		b.done(t, run)
		b.once(t, run, "start a")
		return took
	})
}

// A promoted asynchronous standby lacks the last commits, and with them the end of a task: the task runs again, once. No
// other test shows that, so this part is always tried.
func TestTakeover_AfterPromotionOfAStandbyThatLackedTheEndOfATask(t *testing.T) {
	if *takeoverTrials == 0 {
		t.Parallel()
	}
	measurePromotion(t, "asynchronous standby promoted, the end of a step lost: from its first write until that step starts again", "", takeoverSettings, func(t *testing.T, b *testBundle, n int, primary, standby *pgcluster.Node) time.Duration {
		run := b.relayed(t, n)
		standby.Follow(t, primary)
		standby.Cut(t)
		b.letGo(t, n)
		b.untilSeen(t, run, "start b#1")
		primary.Crash(t)
		standby.Promote(t)
		began := time.Now()
		b.untilSeen(t, run, "start a#2")
		took := time.Since(began)
		b.untilOver(t, run)
		if got, want := b.shown(t, run), "succeeded a=succeeded b=succeeded"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		b.once(t, run, "start a#1", "start a#2")
		if starts := b.seen(t, run, "start b"); starts != 2 { // the lost one, and the one that counts
			t.Errorf("b started %d times, want twice", starts)
		}
		return took
	})
}

// measurePromotion gives each trial a primary and a standby. try makes a run, promotes the standby, and returns how long it
// took until the run went on.
func measurePromotion(t *testing.T, what, state string, settings []string, try func(t *testing.T, b *testBundle, n int, primary, standby *pgcluster.Node) time.Duration) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers")
	}
	primary := pgcluster.Start(t, nil)
	measure(t, what, 4*takeoverTTL, func(n int) time.Duration {
		standby := primary.Standby(t)
		if state == "sync" {
			if err := set(t.Context(), primary, "synchronous_standby_names", "*"); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "the standby follows", func() bool {
			follows, err := one[bool](t.Context(), primary.URL(), "streaming", state)
			return err == nil && follows
		})
		var took time.Duration
		t.Run(fmt.Sprint("trial ", n), func(t *testing.T) { // its data is checked while its servers exist
			both := eitherOf(t, primary, standby)
			b := newTestBundle(t, &pgtest.DB{URL: both}, both)
			w := b.worker(t, "w", settings...)
			took = try(t, b, n, primary, standby)
			w.leave(t)
		})
		primary = standby
		return took
	})
}

// eitherOf returns a URL that leads to the one of two servers that takes writes.
func eitherOf(t *testing.T, one, other *pgcluster.Node) string {
	t.Helper()
	u, err := url.Parse(one.URL())
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(other.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Host += "," + second.Host
	query := u.Query()
	query.Set("target_session_attrs", "read-write")
	u.RawQuery = query.Encode()
	return u.String()
}
