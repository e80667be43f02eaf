package spelling

import (
	"strings"
	"testing"
)

func TestDistance_CountsChanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"stps", "steps", 1},
		{"steeps", "steps", 1},
		{"stebs", "steps", 1},
		{"setps", "steps", 1},
		{"ca", "abc", 3},
		{"kitten", "sitting", 3},
		{"Steps", "steps", 1},
		{strings.Repeat("x", 20), strings.Repeat("y", 40), 40},
		{strings.Repeat("x", 20), strings.Repeat("y", 41), 21},
	} {
		if there, back := Distance(test.a, test.b), Distance(test.b, test.a); there != test.want || back != test.want {
			t.Errorf("%q and %q: %d and %d, want %d", test.a, test.b, there, back, test.want)
		}
	}
}
