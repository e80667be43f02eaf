package worker

import (
	"errors"
	"testing"
	"time"
)

// Reads that fail beside others that are answered are no outage, however long one of them fails.
func TestReads_OneThatIsAnsweredEndsTheOutage(t *testing.T) {
	t.Parallel()
	var r reads
	away := errors.New("away")
	long := time.Now().Add(-time.Hour)
	r.failed(long, true, away)
	if f := r.failure(); !f.Since.Equal(long) {
		t.Errorf("it fails since %v", f.Since)
	}
	r.failed(long, true, away)
	r.answered()
	r.over()
	if f := r.failure(); f.Failing() {
		t.Errorf("beside one that was answered it fails since %v", f.Since)
	}
	r.failed(long, false, away)
	if f := r.failure(); time.Since(f.Since) > time.Minute {
		t.Errorf("it fails since %v, before the answer", f.Since)
	}
}
