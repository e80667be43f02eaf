package worker_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// deaf is a lease with renewals that get no answer for a while: they wait until the caller gives them up.
type deaf struct {
	worker.Lease
	from, until time.Time
}

func (d deaf) Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error) {
	if now := time.Now(); now.After(d.from) && now.Before(d.until) {
		<-ctx.Done()
		return queue.Renewal{}, errAway
	}
	return d.Lease.Renew(ctx, v)
}

// begins returns how often a task begins on a worker that lives through an outage: more than once if the worker ended it.
func begins(t *testing.T, ttl, from, outage time.Duration) int64 {
	t.Helper()
	var n int64
	synctest.Test(t, func(t *testing.T) {
		start, begun := time.Now(), &atomic.Int64{}
		boot := func() time.Duration { return time.Since(start) }
		b := &testBundle{Memory: storetest.NewMemory(storetest.Options{Now: time.Now, Boot: boot})}
		b.put(t, "name: d\nsteps:\n  - {id: a, run: x}\n")
		b.enqueue(t, "d")
		b.start(t, "w", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Self.TTL, c.Executors["process"] = boot, ttl, beginner{begun}
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Lease = deaf{s.Lease, start.Add(from), start.Add(from + outage)}
				return s, err
			}
		})
		time.Sleep(from + outage + 30*time.Second)
		n = begun.Load()
	})
	return n
}

func TestOutages_ATaskNoticesNoneThatIsHarmless(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{30 * time.Second, 5 * time.Minute, time.Hour} {
		const beat = 5 * time.Second
		o := worker.OutagesOf(ttl)
		for less := range 7 { // so that the outage ends at any moment of a renewal that waits in vain
			if n := begins(t, ttl, 3*beat-time.Millisecond, max(0, o.Harmless-time.Duration(less)*time.Second)); n != 1 {
				t.Errorf("lease %v: in an outage of %v - %d s its task was ended", ttl, o.Harmless, less)
			}
		}
	}
}

func TestOutages_EveryTaskEndsInOneThatIsFatal(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{30 * time.Second, 5 * time.Minute, time.Hour} {
		const beat = 5 * time.Second
		o := worker.OutagesOf(ttl)
		if n := begins(t, ttl, 3*beat+time.Millisecond, o.Fatal+time.Millisecond); n < 2 {
			t.Errorf("lease %v: its task lived through an outage of %v", ttl, o.Fatal)
		}
	}
}

func TestOutages_AWorkerSaysAtItsStartWhatItLivesThrough(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]string{
		30 * time.Second:      "an outage of the database longer than 18s ends running tasks (lease_ttl 30s); an outage of up to 4s ends no task",
		queue.DefaultTTL:      "an outage of the database longer than 3m ends running tasks (lease_ttl 5m); an outage of up to 2m39s ends no task",
		time.Hour:             "an outage of the database longer than 36m ends running tasks (lease_ttl 1h); an outage of up to 35m39s ends no task",
		90 * time.Millisecond: "an outage of the database longer than 54ms ends running tasks (lease_ttl 90ms); an outage of up to 12ms ends no task",
	} {
		if got := worker.OutagesOf(ttl).String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// The tables of the documentation must agree with the rules that workers follow.
func TestOutages_AreDocumentedAsTheyAre(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(outageTable()), "\n") {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("docs/operations.md lacks the line\n%s\nof the table\n%s", line, outageTable())
		}
	}
}

func outageTable() string {
	leases := []time.Duration{30 * time.Second, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}
	lasts := []time.Duration{5 * time.Second, 20 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 30 * time.Minute}
	short := func(d time.Duration) string { return dagspec.Duration(d.Milliseconds()).String() }
	row := func(first string, cell func(worker.Outages) string) string {
		line := "| " + first
		for _, ttl := range leases {
			line += " | " + cell(worker.OutagesOf(ttl))
		}
		return line + " |\n"
	}
	table := row("`lease_ttl`", func(o worker.Outages) string {
		if o.TTL == queue.DefaultTTL {
			return short(o.TTL) + ", the default"
		}
		return short(o.TTL)
	})
	for _, last := range lasts {
		table += row("running tasks in an outage of "+short(last), func(o worker.Outages) string { return o.Over(last) })
	}
	table += row("longest outage that no task notices", func(o worker.Outages) string { return short(o.Harmless) })
	table += row("outage after which no running task is left", func(o worker.Outages) string { return short(o.Fatal) })
	return table + row("runs of a lost host go on at another worker after about", func(o worker.Outages) string { return short(o.TakeOver.Round(time.Second)) })
}
