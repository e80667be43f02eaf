package queue

import "time"

// Meter is told what sessions do, as it happens. Its functions are called where every microsecond counts: they count, do
// not block and do not call back. One that is nil is not called.
type Meter struct {
	Flushed   func(FlushTry)
	FenceLost func()                  // once per session that finds that others took its worker for dead
	Requeued  func(workers, runs int) // so many runs were put back into the queue, also of so many lost workers
	Looked    func(err error)         // a Look
	Swept     func(err error)         // a Sweep, unless it came too soon
	Attended  func(done Attended, took time.Duration, err error)
	Overdue   func(d time.Duration) // as of a Look, for how long the first item of the agenda is due; 0: none is
}

func (m *Meter) requeued(workers, runs int) {
	if m.Requeued != nil && workers+runs > 0 {
		m.Requeued(workers, runs)
	}
}

func (m *Meter) overdue(d time.Duration) {
	if m.Overdue != nil {
		m.Overdue(d)
	}
}

func (m *Meter) attended(done Attended, took time.Duration, err error) {
	if m.Attended != nil {
		m.Attended(done, took, err)
	}
}

// tell calls a function that is told how a call ended, unless it is nil.
func tell(told func(error), err error) {
	if told != nil {
		told(err)
	}
}

// FlushTry is one time that a flush went to the database and came back, or found no way there: Err says why. One whose
// outcome was not known goes again.
type FlushTry struct {
	Batches int
	Records int // rows, of which the state of each run is one
	Bytes   int // as sent
	Took    time.Duration
	Err     error
}

// SessionStats are a session at one moment.
type SessionStats struct {
	Held    int           // runs
	Waiting int           // batches that no flush has taken yet
	Trying  time.Duration // how long the journal has waited for the server, or a close for one statement of it; 0: neither waits
	Taken   int64         // flushes so far
	Failing Failure       // why none are taken now
	Aside   Aside         // what waits beside, for a row that somebody else holds
}

// Stats show the session at this moment. They wait for nobody.
func (s *Session) Stats() SessionStats {
	s.journal.health.mu.Lock()
	taken, aside := s.journal.health.taken, s.journal.health.aside
	s.journal.health.mu.Unlock()
	return SessionStats{
		Held: s.held.count(), Waiting: len(s.journal.queue), Trying: max(s.journal.pulse.at(), s.leaving.at()),
		Taken: taken, Failing: s.journal.failure(), Aside: aside,
	}
}

// size of what a flush was filled with.
func (f *flush) size() (records, bytes int) {
	for _, g := range f.groups() {
		records += g.count
	}
	for _, arg := range f.args {
		bytes += len(arg)
	}
	return records, bytes
}

// meter tells of a try that began at start.
func (j *journal) meter(batches int, start time.Time, err error) {
	if j.flushed == nil {
		return
	}
	records, bytes := j.flush.size()
	j.flushed(FlushTry{Batches: batches, Records: records, Bytes: bytes, Took: time.Since(start), Err: err})
}
