package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// pooled is a DAG with three steps of one pool. Its runs do not begin with them, so workers claim the runs while the pool is full.
const pooled = `
name: pooled
steps:
  - {id: first, action: noop}
  - {id: a, depends: [first], pool: heavy, run: '. $DIR/lib; see start; hold go; sleep 0.05; see end'}
  - {id: b, depends: [first], pool: heavy, run: '. $DIR/lib; see start; hold go; sleep 0.05; see end'}
  - {id: c, depends: [first], pool: heavy, run: '. $DIR/lib; see start; hold go; sleep 0.05; see end'}
`

// waiters returns how many workers beside w1 wait for permits of a pool.
func (b *testBundle) waiters(t *testing.T, pool string) int {
	t.Helper()
	permits, err := b.PoolPermits(t.Context(), pool, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	waits := map[string]bool{}
	for i := range permits {
		if p := &permits[i]; p.Worker != "w1" && p.GrantedAt.IsZero() {
			waits[p.Worker] = true
		}
	}
	return len(waits)
}

// One worker has all permits of a pool and is killed with its guard, while bodies of other workers wait. They go on once its
// lease is over, and at no instant more bodies are under way than the pool has slots.
func TestPools_ALostWorkerKeepsNoPermit(t *testing.T) {
	t.Parallel()
	const slots = 3
	b := setup(t)
	if _, err := b.SetPool(t.Context(), "heavy", queue.PoolLimits{Slots: slots}); err != nil {
		t.Fatal(err)
	}
	b.put(t, pooled)
	settings := append([]string{"slots=4"}, short...)
	w1 := b.worker(t, "w1", settings...)
	runs := []queue.RunID{b.enqueue(t, "pooled", nil)}
	for _, step := range []string{"a", "b", "c"} {
		b.untilSeen(t, runs[0], fmt.Sprintf("start %s#1", step))
	}
	for _, name := range []string{"w2", "w3", "w4"} {
		b.worker(t, name, settings...)
	}
	b.hungry(t, 4)
	for range 19 {
		runs = append(runs, b.enqueue(t, "pooled", nil))
	}
	until(t, "another worker waits for permits", func() bool { return b.waiters(t, "heavy") > 0 }) // chance has it how many runs each claims

	_, pid := b.driver(t, "w1")
	killed := time.Now()
	killAll(t, w1.Process.Pid, pid)
	b.write(t, "go", "") // so that its bodies, which nothing ends now, are gone before its lease is over
	until(t, "a waiting body goes on", func() bool { return b.starts(t) > slots })
	figures(t, "guard and driver process killed: until waiting bodies go on, TTL "+shortTTL.String(), []time.Duration{time.Since(killed)})
	if late := time.Since(killed) - shortTTL; late > prompt {
		t.Errorf("the permits of a killed worker are given to others %v after its lease was over", late)
	}
	for _, run := range runs {
		if got, want := b.await(t, run), "succeeded first=succeeded a=succeeded b=succeeded c=succeeded"; got != want {
			t.Errorf("run %d: got %s, want %s", run, got, want)
		}
	}
	if most := b.mostUnderWay(t); most != slots {
		t.Errorf("at most %d bodies were under way at once, want %d", most, slots)
	}
	until(t, "nothing of the pool is taken", func() bool {
		pools, err := b.Pools(t.Context(), "heavy")
		return err == nil && len(pools) == 1 && pools[0].Taken+pools[0].Waiting == 0
	})
}

// starts counts the bodies that have begun.
func (b *testBundle) starts(t *testing.T) (n int) {
	t.Helper()
	for _, s := range b.sights(t) {
		if s.What == "start" {
			n++
		}
	}
	return n
}

// mostUnderWay returns how many bodies were under way at once at most, by the order in which the bodies themselves wrote it down.
// Each of them must have come to its end.
func (b *testBundle) mostUnderWay(t *testing.T) (most int) {
	t.Helper()
	n := 0
	for _, s := range b.sights(t) {
		switch s.What {
		case "start":
			n++
		case "end":
			n--
		}
		most = max(most, n)
	}
	if n != 0 {
		t.Errorf("%d bodies did not end", n)
	}
	return most
}
