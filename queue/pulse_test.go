package queue

import (
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func TestPulse_CountsWhileTheJournalIsAtSomething(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	y.eventually("the journal waits", func() bool { return y.pulse.at() == 0 })
	holder := y.begin() // its flush waits for the fence
	y.in(holder, "SELECT FROM oarlock.fences FOR NO KEY UPDATE")
	done := y.later(batch(c, taskAt(0, 1, dagrun.TaskRunning)))
	y.blocked(holder, appName(y.worker))
	if y.pulse.at() <= 0 {
		t.Error("a flush is under way, and nothing counts")
	}
	y.end(holder)
	y.must(y.outcome(done))
	y.eventually("the journal waits again", func() bool { return y.pulse.at() == 0 })
}
