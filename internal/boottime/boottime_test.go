package boottime

import "testing"

func TestNow_NeverGoesBack(t *testing.T) {
	t.Parallel()
	last := Now()
	if last <= 0 {
		t.Fatalf("Now() = %v, want more than 0", last)
	}
	for range 10_000 {
		now := Now()
		if now < last {
			t.Fatalf("went back from %v to %v", last, now)
		}
		last = now
	}
}
