package worker

import (
	"errors"
	"testing"
	"time"
)

// Reads that fail are no outage as long as other reads of their kind succeed, however long one of them fails.
func TestReads_OneThatIsAnsweredEndsTheOutage(t *testing.T) {
	t.Parallel()
	var r reads
	away := errors.New("away")
	long := time.Now().Add(-time.Hour)
	r.failed(readMail, long, true, away)
	if f, _ := r.failure(); !f.Since.Equal(long) {
		t.Errorf("it fails since %v", f.Since)
	}
	r.answered(readRun)
	if f, _ := r.failure(); !f.Since.Equal(long) {
		t.Errorf("beside an answer of another kind it fails since %v", f.Since)
	}
	r.failed(readMail, long, true, away)
	r.answered(readMail)
	r.over(readMail)
	if f, _ := r.failure(); f.Failing() {
		t.Errorf("beside one that was answered it fails since %v", f.Since)
	}
	r.failed(readMail, long, false, away)
	if f, _ := r.failure(); time.Since(f.Since) > time.Minute {
		t.Errorf("it fails since %v, before the answer", f.Since)
	}
}
