package integration

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// lossesOf returns the counters of a worker's page that outlive its driver process, without those that are 0.
func lossesOf(page string) string {
	found := regexp.MustCompile(`(?m)^oarlock_(?:leases_lost_total|fences_lost_total|lives_given_up_total|driver_replacements_total\S*) [1-9].*$`).FindAllString(page, -1)
	return strings.Join(found, "\n")
}

// The guard ends a driver process that was frozen for longer than its lease. No other process saw the loss, so the
// successor counts it, and so does that one's successor.
// does the successor of that one.
func TestLosses_OutliveTheDriverProcessThatLostItsLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.worker(t, "w1", append([]string{"listen=127.0.0.1:0"}, short...)...)
	until(t, "its guard knows of its lease", func() bool { return w.saw("ready to claim runs") })
	first, pid := b.driver(t, "w1")
	const lost = "oarlock_driver_replacements_total{why=\"overdue\"} 1\noarlock_leases_lost_total 1"
	if got := lossesOf(w.page(t, "/metrics")); got != "" {
		t.Errorf("at first: %s", got)
	}
	signal(t, syscall.SIGSTOP, pid)
	second, pid := b.driver(t, "w1", first)
	if got := lossesOf(w.page(t, "/metrics")); got != lost {
		t.Errorf("after a lease that was lost:\n%s\nwant\n%s", got, lost)
	}
	signal(t, syscall.SIGKILL, pid)
	b.driver(t, "w1", first, second)
	want := strings.Replace(lost, "oarlock_driver", "oarlock_driver_replacements_total{why=\"died\"} 1\noarlock_driver", 1)
	if got := lossesOf(w.page(t, "/metrics")); got != want {
		t.Errorf("after another process:\n%s\nwant\n%s", got, want)
	}
	w.leave(t)
}
