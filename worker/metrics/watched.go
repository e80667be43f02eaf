package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/logship"
)

// watched holds the sources of numbers that are read at each scrape.
type watched struct {
	version string
	gauges  map[string]gauge
	depth   *answer[queue.Scale]
	taken   *answer[[]queue.Pool]
	overdue *answer[time.Duration]

	mu     sync.Mutex
	before Carried              // counts of former driver processes
	status func() worker.Status // nil: no worker is watched
	logs   func() logship.Stats // nil: no logs are watched
	past   logship.Stats        // of logs that were watched before
	scale  func(context.Context) (queue.Scale, error)
	pools  func(context.Context) ([]queue.Pool, error)
	prune  func(context.Context) (time.Duration, error)
}

// gauge is a metric that is read at each scrape.
type gauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newWatched(version string) *watched {
	w := &watched{version: version, gauges: map[string]gauge{}, depth: newAnswer[queue.Scale](), taken: newAnswer[[]queue.Pool](), overdue: newAnswer[time.Duration]()}
	for _, f := range []struct {
		name, help string
		kind       prometheus.ValueType
		labels     []string
	}{
		{"worker_info", "Always 1: what this worker is.", prometheus.GaugeValue, []string{"containment", "version"}},
		{"worker_phase", "1 for what the worker is at, else 0.", prometheus.GaugeValue, []string{"phase"}},
		{"worker_unfit", "1 for each reason why the worker claims nothing now, else 0.", prometheus.GaugeValue, []string{"reason"}},
		{"registrations_total", "Lives of this worker so far: it begins anew when its lease was lost.", prometheus.CounterValue, nil},
		{"leases_lost_total", "Lives that ended because the lease was lost; with former driver processes of its guard.", prometheus.CounterValue, nil},
		{"lives_given_up_total", "Lives that ended because the database took no records, or let no runs be read, for the time of a lease; with former driver processes of its guard.", prometheus.CounterValue, nil},
		{"flush_failing_seconds", "How long the database has taken no records; 0: it takes them.", prometheus.GaugeValue, nil},
		{"log_failing_seconds", "How long the database has taken no logs; 0: it takes them.", prometheus.GaugeValue, nil},
		{"lease_margin_seconds", "What is left until the worker kills its tasks, if no sign of life is answered until then.", prometheus.GaugeValue, nil},
		{"lease_seconds", "How long this worker may be silent before others take its runs over.", prometheus.GaugeValue, nil},
		{"runs_held", "Runs driven here at the moment.", prometheus.GaugeValue, nil},
		{"slots", "Slots of this worker.", prometheus.GaugeValue, nil},
		{"slots_busy", "Slots in use.", prometheus.GaugeValue, nil},
		{"tasks_active", "Tasks that hold slots, or run without one.", prometheus.GaugeValue, nil},
		{"tasks_waiting", "Tasks that wait for a slot here.", prometheus.GaugeValue, nil},
		{"permits_held", "Permits of pools that this worker has.", prometheus.GaugeValue, nil},
		{"permit_waiting", "Tasks that wait for permits of pools here.", prometheus.GaugeValue, nil},
		{"slot_idle_seconds_total", "Time that slots were free while a task waited, times slots.", prometheus.CounterValue, nil},
		{"journal_waiting", "Commits that no flush has taken yet.", prometheus.GaugeValue, nil},
		{"journal_busy_seconds", "How long the journal has been at one try of a flush; 0 while it has nothing to do.", prometheus.GaugeValue, nil},
		{"log_stored_bytes_total", "Bytes of logs that were stored, or handed over to be stored with the record of an end.", prometheus.CounterValue, nil},
		{"log_dropped_bytes_total", "Bytes of logs that were lost: past a limit, or for want of room while the database was away.", prometheus.CounterValue, nil},
		{"log_spooled_bytes_total", "Bytes of logs that went to disk for a while.", prometheus.CounterValue, nil},
		{"log_waiting_bytes", "Memory held by logs that are not stored yet.", prometheus.GaugeValue, nil},
		{"queue_depth", "Runs that are due and not claimed, in all queues; counted up to 10,000 a lane.", prometheus.GaugeValue, nil},
		{"queue_oldest_age_seconds", "Age, from run_at, of the oldest of these that no pause holds; 0 for none.", prometheus.GaugeValue, nil},
		{"queue_claimed", "Runs that some worker holds.", prometheus.GaugeValue, nil},
		{"queue_slots", "Slots of all live workers that give signs of life.", prometheus.GaugeValue, nil},
		{"queue_slots_wanted", "Slots that would leave nothing waiting.", prometheus.GaugeValue, nil},
		{"pool_taken", "Slots of a pool that are taken, in the whole cluster.", prometheus.GaugeValue, []string{"pool"}},
		{"pool_waiting", "Permits of a pool that workers wait for, in the whole cluster.", prometheus.GaugeValue, []string{"pool"}},
		{"pool_oldest_wait_seconds", "How long the first of these has waited; 0 for none.", prometheus.GaugeValue, []string{"pool"}},
		{"prune_overdue_seconds", "For how long the run that is furthest past its retention should have been gone; 0 for none.", prometheus.GaugeValue, nil},
		{"queue_errors_total", "Times that the database did not say how deep the queue is.", prometheus.CounterValue, nil},
	} {
		w.gauges[f.name] = gauge{desc(f.name, f.help, f.labels...), f.kind}
	}
	return w
}

// Carried is the counts of former driver processes of the same guard.
type Carried struct {
	Leases, Fences int64            // lost
	GivenUp        int64            // registrations given up because the database took no records, or let no runs be read
	Replacements   map[string]int64 // of driver processes, by reason
}

// Carry makes the metrics of losses begin with the counts of former driver processes. A driver process that is killed loses its
// counts, and the loss for which it was killed would show nowhere. Call it at most once, because some of the counts are added.
func (s *Set) Carry(c Carried) {
	s.watched.mu.Lock()
	s.watched.before = c
	s.watched.mu.Unlock()
	s.counted.fencesLost.Add(float64(c.Fences))
	for why, n := range c.Replacements {
		s.counted.replacements.add(why, float64(n))
	}
}

// Watch sets the function from which each scrape gets the worker's status, in place of an earlier one. Without one, the metrics of
// the status are missing.
func (s *Set) Watch(status func() worker.Status) {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	s.watched.status = status
}

// WatchLogs sets the function from which each scrape gets the stats of logs, of a logship.Shipper. When it is called again, for the
// shipper of the worker's next registration, the numbers go on from the last ones.
func (s *Set) WatchLogs(stats func() logship.Stats) {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	s.watched.past = s.watched.logStats()
	s.watched.past.Waiting = 0
	s.watched.logs = stats
}

// WatchQueue sets the function that asks the database for the depth of all queues, queue.Store.Scale. Scrapes call it at most every
// five seconds. Without one, the metrics of the queue are missing.
func (s *Set) WatchQueue(scale func(context.Context) (queue.Scale, error)) {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	s.watched.scale = scale
}

// WatchPools sets the function that asks the database for all pools by name, queue.Store.Pools. Scrapes call it at most every five
// seconds. Without one, the metrics of pools are missing.
func (s *Set) WatchPools(pools func(context.Context) ([]queue.Pool, error)) {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	s.watched.pools = pools
}

// WatchPrune sets the function that asks the database how overdue pruning is, queue.Store.PruneOverdue. Scrapes call it at most
// every five seconds. Without one, the metric is missing.
func (s *Set) WatchPrune(overdue func(context.Context) (time.Duration, error)) {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	s.watched.prune = overdue
}

// logStats returns the stats of the watched logs, added to the stats of the logs that were watched before. The caller holds mu.
func (w *watched) logStats() logship.Stats {
	sum := w.past
	if w.logs != nil {
		now := w.logs()
		sum.Stored, sum.Dropped, sum.Spooled, sum.Waiting = sum.Stored+now.Stored, sum.Dropped+now.Dropped, sum.Spooled+now.Spooled, now.Waiting
	}
	return sum
}

// Describe implements prometheus.Collector.
func (w *watched) Describe(out chan<- *prometheus.Desc) {
	for _, g := range w.gauges {
		out <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (w *watched) Collect(out chan<- prometheus.Metric) {
	w.mu.Lock()
	status, scale, pools, prune, hasLogs, logs, before := w.status, w.scale, w.pools, w.prune, w.logs != nil, w.logStats(), w.before
	w.mu.Unlock()
	show := shower{w, out}
	if status != nil {
		show.worker(status(), before)
	}
	if hasLogs {
		show.logs(logs)
	}
	if scale != nil {
		show.queue(w.depth.ask(scale))
	}
	if pools != nil {
		if now, known, _ := w.taken.ask(pools); known {
			show.pools(now)
		}
	}
	if prune != nil {
		if late, known, _ := w.overdue.ask(prune); known {
			show.one("prune_overdue_seconds", late.Seconds())
		}
	}
}

// shower sends numbers to a scrape.
type shower struct {
	*watched
	out chan<- prometheus.Metric
}

func (s shower) one(name string, value float64, labels ...string) {
	g := s.gauges[name]
	s.out <- prometheus.MustNewConstMetric(g.desc, g.kind, value, labels...)
}

func (s shower) worker(now worker.Status, before Carried) {
	s.one("worker_info", 1, oneOf(containments, now.Containment), s.version)
	for _, phase := range phases {
		s.one("worker_phase", truth(phase == string(now.Phase)), phase)
	}
	for _, cause := range worker.UnfitCauses {
		s.one("worker_unfit", truth(slices.Contains(now.UnfitFor, cause)), cause)
	}
	s.one("registrations_total", float64(now.Registrations))
	s.one("leases_lost_total", float64(before.Leases+int64(now.Losses)))
	s.one("lives_given_up_total", float64(before.GivenUp+int64(now.GivenUp)))
	s.one("flush_failing_seconds", now.Unwritten.Seconds())
	s.one("log_failing_seconds", now.Unlogged.Seconds())
	s.one("lease_seconds", now.TTL.Seconds())
	if now.Phase == worker.Live || now.Phase == worker.Draining {
		s.one("lease_margin_seconds", (now.Soft - boottime.Now()).Seconds())
	}
	s.one("runs_held", float64(now.Runs))
	s.one("slots", float64(now.Slots.Slots))
	s.one("slots_busy", float64(now.Slots.Slots-now.Slots.Free))
	s.one("tasks_active", float64(now.Slots.Active))
	s.one("tasks_waiting", float64(now.Slots.Waiting))
	s.one("permits_held", float64(now.Permits.Held))
	s.one("permit_waiting", float64(now.Permits.Waiting))
	s.one("slot_idle_seconds_total", now.Slots.IdleSlotSeconds)
	s.one("journal_waiting", float64(now.Session.Waiting))
	s.one("journal_busy_seconds", now.Session.Trying.Seconds())
}

func (s shower) logs(now logship.Stats) {
	s.one("log_stored_bytes_total", float64(now.Stored))
	s.one("log_dropped_bytes_total", float64(now.Dropped))
	s.one("log_spooled_bytes_total", float64(now.Spooled))
	s.one("log_waiting_bytes", float64(now.Waiting))
}

// queue sends the numbers of the queue to the scrape. If known is false, it sends only the number of errors.
func (s shower) queue(now queue.Scale, known bool, errors int64) {
	s.one("queue_errors_total", float64(errors))
	if !known {
		return
	}
	s.one("queue_depth", float64(now.Queued))
	s.one("queue_oldest_age_seconds", now.Oldest.Seconds())
	s.one("queue_claimed", float64(now.Claimed))
	s.one("queue_slots", float64(now.Slots))
	s.one("queue_slots_wanted", float64(now.Wanted))
}

// pools sends the numbers of the first maxPools pools to the scrape, and the numbers of all further ones together as other.
func (s shower) pools(all []queue.Pool) {
	sums := map[string]queue.Pool{}
	for i, p := range all {
		name := p.Name
		if i >= maxPools {
			name = other
		}
		sum := sums[name] // a pool may be called other
		sum.Taken, sum.Waiting, sum.Oldest = sum.Taken+p.Taken, sum.Waiting+p.Waiting, max(sum.Oldest, p.Oldest)
		sums[name] = sum
	}
	for name, p := range sums {
		s.one("pool_taken", float64(p.Taken), name)
		s.one("pool_waiting", float64(p.Waiting), name)
		s.one("pool_oldest_wait_seconds", p.Oldest.Seconds(), name)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
