package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

var (
	_ worker.Meter = (*Set)(nil)

	// tripBuckets are for round trips to the database: 0.25 ms to 8 s.
	tripBuckets = prometheus.ExponentialBuckets(0.00025, 2, 16)
	// workBuckets are for runs and bodies: 5 ms to a day.
	workBuckets = []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600}
	// marginBuckets are for a lease of the usual 5 minutes, and for shorter and longer ones.
	marginBuckets = []float64{0, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 1024}
	// lateBuckets are for delays up to an outage of a night.
	lateBuckets = []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 4 * 3600, 24 * 3600}
	sizeBuckets = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// counted holds the metrics that are counted when events happen.
type counted struct {
	started     prometheus.Counter
	waited      prometheus.Histogram
	drives      choice
	runTook     *prometheus.HistogramVec
	runTookAs   map[string]prometheus.Observer
	tasks       choice
	attempts    *prometheus.CounterVec
	attemptTook *prometheus.HistogramVec
	bodies      *names

	polls      choice
	pollTook   prometheus.Histogram
	claims     prometheus.Histogram
	looks      choice
	sweeps     choice
	chores     choice
	attends    choice
	attendTook prometheus.Histogram
	fires      choice
	fireLate   prometheus.Histogram
	permits    choice
	permitTook prometheus.Histogram
	unattended prometheus.Counter
	overdue    prometheus.Gauge
	reaped     prometheus.Counter
	requeued   prometheus.Counter

	flushes      choice
	flushTook    prometheus.Histogram
	flushBatches prometheus.Histogram
	flushRecords prometheus.Histogram
	flushBytes   prometheus.Counter

	renewals   choice
	renewTook  prometheus.Histogram
	margins    prometheus.Histogram
	fencesLost prometheus.Counter

	replacements choice
}

func newCounted() counted {
	c := counted{
		started: counter("runs_started_total", "Runs that began their first drive on this worker."),
		waited:  histogram("run_wait_seconds", "From when a run was due to when its first drive began.", workBuckets),
		drives:  newChoice("drives_total", "Drives that ended here, by how: in the last state of the run, or without the run being over.", "outcome", outcomes),
		runTook: histogramVec("run_duration_seconds", "From the first start to the end of runs that ended here.", workBuckets, "outcome"),
		tasks:   newChoice("tasks_total", "Tasks that came to an end here, by their last state.", "state", taskStates),

		attempts:    counterVec("attempts_total", "Bodies that ended here, by kind and by how.", "body", "outcome"),
		attemptTook: histogramVec("attempt_duration_seconds", "How long bodies took.", workBuckets, "body"),
		bodies:      newNames(maxBodies),

		polls:      newChoice("polls_total", "Polls, by result.", "result", results),
		pollTook:   histogram("poll_duration_seconds", "How long polls took.", tripBuckets),
		claims:     histogram("claimed_runs", "Runs claimed by a poll that claimed any; the sum is all runs claimed.", sizeBuckets),
		looks:      newChoice("looks_total", "Looks at other workers and at what is due, by result.", "result", results),
		sweeps:     newChoice("sweeps_total", "Sweeps for what was left behind, by result.", "result", results),
		chores:     newChoice("chores_total", "Calls that did what was due for all workers, by result.", "result", results),
		attends:    newChoice("attends_total", "Calls that did what was due on the agenda, by result.", "result", results),
		attendTook: histogram("attend_duration_seconds", "How long these calls took.", tripBuckets),
		fires:      newChoice("fires_total", "Fire times of schedules that this worker decided, by outcome.", "outcome", fireOutcomes),
		fireLate:   histogram("fire_lateness_seconds", "From when a run of a schedule was due to when it was made.", lateBuckets),
		permits:    newChoice("permit_calls_total", "Calls that asked for permits of pools or gave some back, by result.", "result", results),
		permitTook: histogram("permit_call_duration_seconds", "How long these calls took.", tripBuckets),
		unattended: counter("agenda_failures_total", "Items of the agenda that this worker could not attend to, and put off for a minute or more."),
		overdue:    gaugeOf("agenda_oldest_seconds", "For how long the oldest item of the agenda has been due, as of the last look; 0: nothing is due."),
		reaped:     counter("workers_reaped_total", "Dead workers that this worker found: it queued their runs again."),
		requeued:   counter("runs_requeued_total", "Runs of others put back into the queue by this worker: waited long enough, or left by the dead."),

		flushes:      newChoice("flushes_total", "Flushes sent, by result; one that failed is sent again.", "result", results),
		flushTook:    histogram("flush_duration_seconds", "How long flushes took that were written.", tripBuckets),
		flushBatches: histogram("flush_batches", "Commits of drives in a flush that was written.", sizeBuckets),
		flushRecords: histogram("flush_records", "Rows in a flush that was written.", sizeBuckets),
		flushBytes:   counter("flush_bytes_total", "Bytes of flushes that were written."),

		renewals:   newChoice("renewals_total", "Signs of life, by result.", "result", results),
		renewTook:  histogram("renewal_duration_seconds", "How long signs of life took that were answered.", tripBuckets),
		margins:    histogram("renewal_margin_seconds", "What was left until the worker would have killed its tasks when a sign of life had been tried.", marginBuckets),
		fencesLost: counter("fences_lost_total", "Times that others took this worker for dead while it was not; with former driver processes of its guard."),

		replacements: newChoice("driver_replacements_total", "Driver processes that the guard replaced before this one, by why.", "why", replacementWhys),
	}
	for _, body := range commandBodies { // present from the start, so that the first failure is seen as a rise
		for _, outcome := range alertedOutcomes {
			c.attempts.WithLabelValues(c.bodies.bound(body), outcome)
		}
	}
	c.runTookAs = map[string]prometheus.Observer{}
	for _, state := range runStates {
		c.runTookAs[state] = c.runTook.WithLabelValues(state)
	}
	return c
}

func (c *counted) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		c.started, c.waited, c.drives.vec, c.runTook, c.tasks.vec, c.attempts, c.attemptTook,
		c.polls.vec, c.pollTook, c.claims, c.looks.vec, c.sweeps.vec, c.chores.vec, c.attends.vec, c.attendTook, c.fires.vec, c.fireLate, c.permits.vec, c.permitTook, c.unattended, c.overdue, c.reaped, c.requeued,
		c.flushes.vec, c.flushTook, c.flushBatches, c.flushRecords, c.flushBytes,
		c.renewals.vec, c.renewTook, c.margins, c.fencesLost, c.replacements.vec,
	}
}

// RunStarted implements worker.Meter, as do the next five methods. It counts the start of a run, and records for how long the run
// had been due.
func (s *Set) RunStarted(_ string, waited time.Duration) {
	s.counted.started.Inc()
	s.counted.waited.Observe(waited.Seconds())
}

// RunLeft counts the end of a drive by its outcome. If the run is over, it also records how long the run took.
func (s *Set) RunLeft(dag string, as worker.Outcome, took time.Duration) {
	s.counted.drives.inc(string(as))
	if over, ok := s.counted.runTookAs[string(as)]; ok {
		over.Observe(took.Seconds())
	}
	if s.perDAG != nil {
		s.perDAG.left(dag, as, took)
	}
}

// TaskSettled counts a task that has come to its final state.
func (s *Set) TaskSettled(dag string, as dagrun.State) {
	s.counted.tasks.inc(as.String())
	if s.perDAG != nil {
		s.perDAG.settled(dag, as)
	}
}

// AttemptEnded counts the end of a body by kind and outcome, and records how long it took.
func (s *Set) AttemptEnded(a worker.AttemptEnd) {
	body := s.counted.bodies.bound(a.Body)
	s.counted.attempts.WithLabelValues(body, oneOf(attemptOutcomes, a.Outcome)).Inc()
	s.counted.attemptTook.WithLabelValues(body).Observe(a.Took.Seconds())
}

// Polled counts a poll, and records how long it took and how many runs it claimed. A poll that claimed none is left out of the
// numbers of runs.
func (s *Set) Polled(p worker.PollEnd) {
	c := &s.counted
	c.polls.inc(result(p.Err))
	c.pollTook.Observe(p.Took.Seconds())
	if n := len(p.Got.Claims); n > 0 {
		c.claims.Observe(float64(n))
	}
}

// Renewed counts a try to renew the lease, and records margin, the time that was left until the worker would have killed its tasks.
// Only if err is nil it records how long the renewal took.
func (s *Set) Renewed(margin, took time.Duration, err error) {
	s.counted.renewals.inc(result(err))
	s.counted.margins.Observe(margin.Seconds())
	if err == nil {
		s.counted.renewTook.Observe(took.Seconds())
	}
}

// Queue returns the functions that count what the store does: put them into queue.Config.Meter of the store with which the worker
// registers.
func (s *Set) Queue() queue.Meter {
	c := &s.counted
	return queue.Meter{
		Flushed: s.flushed, FenceLost: c.fencesLost.Inc, Requeued: s.requeued,
		Looked: func(err error) { c.looks.inc(result(err)) }, Swept: func(err error) { c.sweeps.inc(result(err)) },
		ChoresDone: func(err error) { c.chores.inc(result(err)) },
		Permitted:  s.permitted, Attended: s.attended, Overdue: func(d time.Duration) { c.overdue.Set(d.Seconds()) },
	}
}

func (s *Set) attended(done queue.Attended, took time.Duration, err error) {
	c := &s.counted
	c.attends.inc(result(err))
	if err != nil {
		return
	}
	c.attendTook.Observe(took.Seconds())
	for i := range done.Decisions {
		d := &done.Decisions[i]
		switch {
		case slices.Contains(fireOutcomes, d.Outcome):
			c.fires.add(d.Outcome, float64(d.Times))
		case d.Outcome == "failed":
			c.unattended.Inc()
		}
		if d.Outcome == "fired" {
			c.fireLate.Observe(d.Late.Seconds())
		}
	}
}

func (s *Set) permitted(took time.Duration, err error) {
	s.counted.permits.inc(result(err))
	if err == nil {
		s.counted.permitTook.Observe(took.Seconds())
	}
}

func (s *Set) requeued(workers, runs int) {
	s.counted.reaped.Add(float64(workers))
	s.counted.requeued.Add(float64(runs))
}

func (s *Set) flushed(f queue.FlushTry) {
	c := &s.counted
	c.flushes.inc(result(f.Err))
	if f.Err != nil {
		return
	}
	c.flushTook.Observe(f.Took.Seconds())
	c.flushBatches.Observe(float64(f.Batches))
	c.flushRecords.Observe(float64(f.Records))
	c.flushBytes.Add(float64(f.Bytes))
}

func result(err error) string {
	if err != nil {
		return resultError
	}
	return resultOK
}
