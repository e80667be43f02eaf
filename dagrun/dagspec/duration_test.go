package dagspec

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration_TakesGoDurationsAndDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "1.5h": 90 * time.Minute, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "250ms": 250 * time.Millisecond,
		"2h45m30s": 2*time.Hour + 45*time.Minute + 30*time.Second, "1500us": 2 * time.Millisecond, "0d": 0, "36500d": 36500 * 24 * time.Hour,
	} {
		got, err := ParseDuration(text)
		if err != nil || got.Std() != want {
			t.Errorf("%s: %v, %v", text, got.Std(), err)
		}
	}
	for _, text := range []string{"", "0", "5", "-5s", "+5s", "5 s", "s", "1h30", "1x", "1e3s", ".5s", "1.s", "99999d", "1ns", "5S", "1..5s"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is accepted: %s", text, got)
		}
	}
}

func TestDuration_PrintsWhatItParses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Range(0, int64(maxDuration)).Draw(t, "ms"))
		if back, err := ParseDuration(d.String()); err != nil || back != d {
			t.Fatalf("%d prints %s, which is %d (%v)", d, d, back, err)
		}
	})
}
