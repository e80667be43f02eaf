package health

import (
	"errors"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/worker"
)

// Times after which a loop without progress counts as stuck. Each is well above the timeouts that end the loop's own work.
const (
	missedRenewals = 3                // rounds of the keeper of the lease
	keeperSlack    = 5 * time.Second  // in addition
	journalBound   = 30 * time.Second // one try of a flush, which times out after ten seconds
	endingBound    = time.Minute      // from when everything was asked to end until it has ended
)

// Alive returns an error with the reason why the worker should be restarted: it has stopped, or one of its loops is stuck. nil
// means that it should not. The database being away is no reason.
func Alive(s worker.Status) error { return alive(&s, time.Now()) }

func alive(s *worker.Status, now time.Time) error {
	switch s.Phase {
	case worker.Stopped:
		return errors.New("the worker has stopped")
	case worker.Ending:
		if since := now.Sub(s.Since); since > endingBound {
			return fmt.Errorf("the worker is ending its tasks, but these have not ended for %s", since.Round(time.Second))
		}
	case worker.Live, worker.Draining:
		if since := now.Sub(s.Ticked); since > missedRenewals*s.RenewEvery+keeperSlack {
			return fmt.Errorf("the worker has not checked its lease for %s", since.Round(time.Second))
		}
	case worker.Starting: // it waits for the database
		return nil
	}
	if s.Session.Trying > journalBound {
		return fmt.Errorf("the journal has been stuck for %s", s.Session.Trying.Round(time.Second))
	}
	return nil
}

// Ready returns an error with the reason why the worker takes no work now; nil if it is ready. A worker for which Alive returns an
// error is not ready.
func Ready(s worker.Status) error { return ready(&s, time.Now(), boottime.Now()) }

func ready(s *worker.Status, now time.Time, boot time.Duration) error {
	if err := alive(s, now); err != nil {
		return err
	}
	switch {
	case len(s.Unfit) > 0: // first, because it may be the reason why the worker is not registered
		return errors.New(s.Unfit[0])
	case s.Phase == worker.Starting && s.Awaits != "":
		return errors.New(s.Awaits)
	case s.Phase == worker.Starting:
		return errors.New("not registered")
	case s.Phase != worker.Live:
		return fmt.Errorf("the worker is %s", s.Phase)
	case s.Refusal != "":
		return errors.New("the database refused the last sign of life: " + s.Refusal)
	case s.RenewErr != nil:
		return errors.New("the database did not answer the last sign of life")
	case boot >= s.Soft:
		return errors.New("the lease has run out")
	}
	return nil
}

// margin returns how long the lease still holds; 0 if it has run out, or the worker holds none.
func margin(s *worker.Status) time.Duration {
	if s.Phase != worker.Live && s.Phase != worker.Draining {
		return 0
	}
	return max(0, s.Soft-boottime.Now())
}
