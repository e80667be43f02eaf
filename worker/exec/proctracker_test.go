package exec

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Only if every pid given away since the body's first process is known did the body certainly fork nothing.
func TestProcTracker_SaysChildlessOnlyWhereItIsSure(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(time.Hour) // so that the test has time
	for name, test := range map[string]struct {
		begun map[int]time.Time
		last  string
		want  bool
	}{
		"nothing since":          {map[int]time.Time{100: now}, "100", true},
		"other bodies since":     {map[int]time.Time{100: now, 101: now, 102: now}, "102", true},
		"somebody else since":    {map[int]time.Time{100: now, 102: now}, "102", false},
		"its own child":          {map[int]time.Time{100: now}, "101", false},
		"pids began anew":        {map[int]time.Time{100: now}, "7", false},
		"it runs for long":       {map[int]time.Time{100: time.Now().Add(-quick)}, "100", false},
		"its start is not known": {nil, "100", false},
		"far too many":           {map[int]time.Time{100: now}, strconv.Itoa(101 + beginAtMost), false},
		"no answer":              {map[int]time.Time{100: now}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ns_last_pid")
			if err := os.WriteFile(path, []byte(test.last+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			last, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			c := &procTracker{begun: test.begun, last: last}
			defer c.close()
			if got := c.childless(100); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
