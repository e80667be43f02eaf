package enumerate

import (
	"errors"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

const (
	mostTasks    = 4
	mostControls = 3
)

// stored is what outlives a drive. Equal values have equal futures, so stored is the key under which a future is
// remembered.
type stored struct {
	run     dagrun.RunRecord
	tasks   [mostTasks]dagrun.TaskRecord
	written [mostTasks]bool
	closed  [mostTasks]uint16 // attempts that have a record of their own, one bit each
	asked   int
	answers [mostControls]dagrun.Outcome
	crashes int // crashes that may still happen
}

func (s *stored) saved() dagrun.Saved {
	saved := dagrun.Saved{Run: s.run}
	for i, yes := range s.written {
		if yes {
			saved.Tasks = append(saved.Tasks, s.tasks[i])
		}
	}
	return saved
}

// keep stores the first rows of a batch with the attempts that belong to them. With last it also stores the rest of the
// batch.
func (c *Case) keep(s *stored, r dagrun.Records, rows int, last bool) error {
	for _, a := range r.Attempts {
		if last || hasRow(r.Tasks[:rows], a.ID) {
			s.closed[a.ID.Step] |= 1 << a.Attempt
		}
	}
	for _, t := range r.Tasks[:rows] {
		if err := c.put(s, t); err != nil {
			return fmt.Errorf("%s is stored as %s: %w", c.graph.TaskName(t.ID), t.State, err)
		}
	}
	if !last {
		return nil
	}
	if r.Run != nil {
		s.run = *r.Run
	}
	for _, d := range r.Controls {
		if s.answers[d.ID-1] != "" {
			return fmt.Errorf("control %d is decided twice", d.ID)
		}
		s.answers[d.ID-1] = d.Outcome
	}
	return nil
}

func hasRow(rows []dagrun.TaskRecord, id dagrun.TaskID) bool {
	for _, t := range rows {
		if t.ID == id {
			return true
		}
	}
	return false
}

// put stores a row after a check that it is consistent with the rows before it.
func (c *Case) put(s *stored, row dagrun.TaskRecord) error {
	i := row.ID.Step
	old := s.tasks[i]
	starts := row.State == dagrun.TaskRunning && row.Attempt != old.Attempt
	switch {
	case old.State.Terminal() && old.Generation == row.Generation && row.ResetBy <= old.ResetBy:
		return fmt.Errorf("it was %s for good", old.State)
	case row.Generation < old.Generation:
		return errors.New("its generation goes backwards")
	case !starts && row.Attempt != old.Attempt:
		return fmt.Errorf("attempt %d follows %d without a start", row.Attempt, old.Attempt)
	case starts:
		if err := c.mayStart(s, row); err != nil {
			return err
		}
	}
	row.Seq = 0
	s.tasks[i], s.written[i] = row, true
	return nil
}

func (c *Case) mayStart(s *stored, row dagrun.TaskRecord) error {
	old := s.tasks[row.ID.Step]
	switch {
	case row.Attempt != old.Attempt+1:
		return fmt.Errorf("attempt %d follows %d", row.Attempt, old.Attempt)
	case old.Attempt > 0 && s.closed[row.ID.Step]&(1<<old.Attempt) == 0:
		return fmt.Errorf("attempt %d has no record", old.Attempt)
	}
	for _, p := range c.parents[row.ID.Step] {
		if s.tasks[p].State != dagrun.TaskSucceeded {
			return fmt.Errorf("%s has not succeeded", c.graph.StepName(p))
		}
	}
	return c.plan.mayStart(s, row.ID.Step)
}
