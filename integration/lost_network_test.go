package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
)

// obedient is a DAG with a step that ends on request.
const obedient = `
name: obedient
steps:
  - {id: a, kill: {signal: SIGTERM, grace: 500ms}, run: '. $DIR/lib; trap "see term; exit 1" TERM; see start; hold never'}
`

// A worker without a network ends within the bounds of docs/worker.md after a request to stop.
func TestStop_AWorkerIsGoneInTimeThoughItsNetworkIsLost(t *testing.T) {
	t.Parallel()
	const drain = 2 * time.Second
	for name, c := range map[string]struct {
		busy, starting bool
		lostFor        time.Duration
		signals        int
		bound          time.Duration
	}{
		"busy":                     {busy: true, signals: 1, bound: drain + 12*time.Second},
		"busy, lost before":        {busy: true, signals: 1, bound: drain + 12*time.Second, lostFor: 5 * time.Second},
		"idle":                     {signals: 1, bound: 12 * time.Second},
		"busy, twice":              {busy: true, signals: 2, bound: 4 * time.Second},
		"busy, lost before, twice": {busy: true, signals: 2, bound: 4 * time.Second, lostFor: 5 * time.Second},
		"idle, twice":              {signals: 2, bound: 4 * time.Second},
		"starting, twice":          {starting: true, signals: 2, bound: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, obedient)
			proxy, through := netfault.Through(t, b.url)
			people := *b
			people.url = through
			if c.starting {
				proxy.Freeze()
			}
			w := people.worker(t, "w1", "drain_timeout=2s", "lease_ttl=30s")
			switch {
			case c.busy:
				b.untilSeen(t, b.enqueue(t, "obedient", nil), "start a#1")
			case c.starting:
				until(t, "it connects", func() bool { return proxy.Counts().Accepted > 0 })
			default:
				until(t, "it is idle", func() bool { return w.saw("ready to claim runs") })
			}
			proxy.Freeze()
			b.pass(t, c.lostFor)
			signal(t, syscall.SIGTERM, w.Process.Pid)
			if c.signals == 2 {
				until(t, "the first signal is heard", func() bool { return w.saw("stopping: running tasks may finish") })
				signal(t, syscall.SIGTERM, w.Process.Pid)
			}
			w.inTime(t, c.bound)
		})
	}
}
