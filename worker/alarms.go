package worker

import (
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Moments that are still to come are stored by the database's clock, which wakes parked runs, and which the next drive goes
// by. What has happened is stored by the run's own clock, so that its order stays.

// stored has what is to come in records by the database's clock.
func (c *runClock) stored(rec *dagrun.Records, leave *dagrun.Leave) *dagrun.Leave {
	if _, ahead := c.read(); ahead == 0 {
		return leave
	}
	rec.Tasks = slices.Clone(rec.Tasks) // the core's own are as they were
	for i := range rec.Tasks {
		t := &rec.Tasks[i]
		t.NextAt, t.Deadline = c.database(t.NextAt), c.database(t.Deadline)
	}
	if rec.Run != nil {
		run := *rec.Run
		run.WakeAt, run.Deadline = c.database(run.WakeAt), c.database(run.Deadline)
		rec.Run = &run
	}
	if leave != nil {
		left := *leave
		left.WakeAt = c.database(left.WakeAt)
		leave = &left
	}
	return leave
}

// restored has what is to come in a run that was loaded by the run's clock.
func (c *runClock) restored(s *dagrun.Saved) {
	if _, ahead := c.read(); ahead == 0 {
		return
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		t.NextAt, t.Deadline = c.own(t.NextAt), c.own(t.Deadline)
	}
	s.Run.Deadline = c.own(s.Run.Deadline)
}

// latest is the largest time stored: the core's time must not be before it.
func latest(s *dagrun.Saved) dagrun.Time {
	last := max(s.Run.StartedAt, s.Run.FinishedAt)
	for i := range s.Tasks {
		last = max(last, s.Tasks[i].StartedAt, s.Tasks[i].AttemptAt, s.Tasks[i].FinishedAt)
	}
	return last
}
