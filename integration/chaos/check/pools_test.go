package check

import (
	"strings"
	"testing"
)

// overlapping are bodies of a pool of two slots: a and b live at the same time, then c begins. The publish of a takes another pool.
const overlapping = `start 1 a - 1 1 w1 1.0
start 2 b - 1 1 w2 1.0
end 1 a - 1 1 w1 1.0
publish 1 a - 1 1 w1 1.0
start 3 c - 1 1 w2 1.0
end 2 b - 1 1 w2 1.0
published 1 a - 1 1 w1 1.0
end 3 c - 1 1 w2 1.0
`

func TestPools_FindsTooManyAtOnce(t *testing.T) {
	t.Parallel()
	insert := func(before, line string) string {
		return strings.Replace(overlapping, before, line+"\n"+before, 1)
	}
	for name, test := range map[string]struct {
		text string
		full int
		want string
	}{
		"as many as may be":            {overlapping, 3, ""},
		"a third":                      {insert("end 1 a", "start 4 d - 1 1 w1 1.0"), 3, "C5"},
		"a third, told once":           {insert("end 1 a", "start 4 d - 1 1 w1 1.0\nstart 5 d - 1 1 w1 1.0"), 3, "C5"},
		"a third that ended before":    {insert("start 2 b", "start 4 d - 1 1 w1 1.0\nend 4 d - 1 1 w1 1.0"), 4, ""},
		"an item":                      {insert("end 1 a", "start 4 d 0 1 1 w1 1.0"), 3, "C5"},
		"a heavy one beside another":   {insert("end 3 c", "start 4 heavy - 1 1 w1 1.0"), 3, "C5"},
		"a heavy one alone":            {overlapping + "start 4 heavy - 1 1 w1 1.0\n", 4, ""},
		"another key":                  {insert("end 1 a", "start 4 other - 1 1 w1 1.0"), 3, ""},
		"a step without a pool":        {insert("end 1 a", "start 4 none - 1 1 w1 1.0"), 3, ""},
		"it was killed before":         {insert("end 1 a", "tick 2 b - 1 1 w2 1.0") + "start 4 d - 1 1 w1 1.0\n", 3, ""},
		"it lives on while lost":       {insert("end 2 b", "start 4 a - 2 2 w2 1.0") + "tick 4 a - 1 1 w1 1.0\n", 3, "C5"},
		"a whole host stood still":     {insert("end 1 a", "start 4 d - 1 1 host 1.0"), 3, ""},
		"a second publish":             {insert("published", "publish 4 a - 1 1 w1 1.0"), 3, "C5"},
		"a publish in the next epoch":  {insert("published", "publish 1 a - 1 2 w1 1.0"), 3, "C5"},
		"a publish after the other":    {overlapping + "publish 1 a - 1 2 w1 1.0\n", 4, ""},
		"a replacement":                {insert("end 1 a", "start 4 d~1 - 1 1 w1 1.0"), 3, "C5"},
		"a line that is being written": {overlapping + "start 4 heavy - 1 1", 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takes := func(s *Sight) []Take {
				switch {
				case s.OfPublish():
					return []Take{{"single", 1, 1}}
				case StepOf(s.Task) == "none":
					return nil
				case StepOf(s.Task) == "other":
					return []Take{{"other", 1, 2}}
				case StepOf(s.Task) == "heavy":
					return []Take{{"pair", 2, 2}}
				}
				return []Take{{"pair", 1, 2}}
			}
			full, broken := Pools(sights(t, test.text), takes, Excused{"host": true})
			if rules(broken) != test.want || full != test.full {
				t.Errorf("broken: %v, %d took the last slot, want %q and %d", broken, full, test.want, test.full)
			}
		})
	}
}
