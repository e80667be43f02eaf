package schedule

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// row is an entry of testdata/times.json or testdata/bad.json. A test of package migrations reads both files too.
type row struct {
	Name, Cron, Every, Timezone   string
	At, Start, End, After, Before time.Time
	Except                        []string
	Want                          []time.Time
	None                          bool // after the fires of the row there are no more
	Field, Msg, Hint              string
}

func (r row) timing(t *testing.T) Timing {
	t.Helper()
	timing := Timing{Cron: r.Cron, At: r.At, Timezone: r.Timezone, Start: r.Start, End: r.End, Except: r.Except}
	if r.Every != "" {
		var err error
		if timing.Every, err = time.ParseDuration(r.Every); err != nil {
			t.Fatal(err)
		}
	}
	return timing
}

func rows(t *testing.T, path string) []row {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []row
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestClock_FiresAsTheTableSays(t *testing.T) {
	t.Parallel()
	for _, r := range rows(t, "testdata/times.json") {
		c, err := New(r.timing(t))
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		step, at := c.Next, r.After
		if at.IsZero() {
			step, at = c.Last, r.Before
		}
		ok := true
		for _, want := range r.Want {
			from := at
			if at, ok = step(from); !ok || !at.Equal(want) {
				t.Errorf("%s: from %s: %s %v, want %s", r.Name, from.Format(time.RFC3339Nano), at.Format(time.RFC3339Nano), ok, want.Format(time.RFC3339Nano))
				break
			}
		}
		if more, is := step(at); ok && is == r.None {
			t.Errorf("%s: then %s %v", r.Name, more, is)
		}
	}
}

func TestNew_RefusesAsTheTableSays(t *testing.T) {
	t.Parallel()
	for _, r := range rows(t, "testdata/bad.json") {
		_, err := New(r.timing(t))
		if e, ok := errors.AsType[*Error](err); !ok || e.Field != r.Field || e.Msg != r.Msg || e.Hint != r.Hint {
			t.Errorf("%+v\n got %+v", r, e)
		}
	}
}

func TestCheck_FindsEveryProblem(t *testing.T) {
	t.Parallel()
	var fields []string
	for _, e := range Check(Timing{Cron: "x", Every: 1, Timezone: "Mars/Olympus", Except: slices.Repeat([]string{"2026-12-25"}, 101)}) {
		fields = append(fields, e.Field)
	}
	if got := strings.Join(fields, " "); got != " cron every timezone except" {
		t.Errorf("fields %q", got)
	}
	long := Timing{Cron: strings.Repeat("0,", 250) + "0 * * * *"}
	if _, err := New(long); err == nil || err.Error() != "cron: 509 characters, at most 500" {
		t.Error(err)
	}
}

func TestClock_ShortestGap(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0 3 * * *": 24 * time.Hour, "0 1,3,23 * * *": 2 * time.Hour, "5,58 * * * *": 7 * time.Minute, "* * * * *": time.Minute, "0 23,0 * * 1": time.Hour,
	} {
		if c, err := New(Timing{Cron: text}); err != nil || c.ShortestGap() != want {
			t.Errorf("%s: %v %v", text, c.ShortestGap(), err)
		}
	}
	if c, err := New(Timing{Every: 1500 * time.Millisecond}); err != nil || c.ShortestGap() != 1500*time.Millisecond {
		t.Error(c, err)
	}
	if c, err := New(Timing{At: time.Unix(0, 0)}); err != nil || c.ShortestGap() != math.MaxInt64 {
		t.Error(c, err)
	}
}

// Moments far outside the known years never fire, and nothing overflows.
func TestClock_EndsWithTheYearsThatItKnows(t *testing.T) {
	t.Parallel()
	for _, timing := range []Timing{{Cron: "* * * * *"}, {Every: time.Second}} {
		c, err := New(timing)
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := c.Next(time.Unix(1<<60, 0)); ok {
			t.Errorf("next %v", at)
		}
		if at, ok := c.Last(time.Time{}); ok {
			t.Errorf("last %v", at)
		}
		if at, ok := c.Next(time.Time{}); !ok || at.Sub(earliest) > time.Minute {
			t.Errorf("next %v %v", at, ok)
		}
		if at, ok := c.Last(time.Unix(1<<60, 0)); !ok || latest.Sub(at) > time.Minute {
			t.Errorf("last %v %v", at, ok)
		}
	}
}

// FuzzCron checks that no text panics, that an error has a message, and that Next and Last agree on accepted expressions.
func FuzzCron(f *testing.F) {
	for _, text := range []string{"30 3 * * 1-5", "*/5,7 1-22/3 L jan-mar sun", "@every 5m", "5/10 * ? * 5#2", "0 0 29 2 *", "H H(1-2) * * 7"} {
		f.Add(text, int64(1_800_000_000))
	}
	zones := []string{"UTC", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"}
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		c, err := New(Timing{Cron: text, Timezone: zones[uint64(seconds)%4]})
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Msg == "" || e.Hint == "" {
				t.Fatalf("%q: %+v", text, err)
			}
			return
		}
		after := time.Unix(seconds%4_000_000_000, 0)
		next, ok := c.Next(after)
		if !ok {
			return
		}
		if !next.After(after) {
			t.Fatalf("%q: next of %v is %v", text, after, next)
		}
		if last, ok := c.Last(next.Add(1)); !ok || !last.Equal(next) {
			t.Fatalf("%q: next of %v is %v, last before it %v", text, after, next, last)
		}
		if last, ok := c.Last(next); ok && last.After(after) {
			t.Fatalf("%q: %v lies between %v and %v", text, last, after, next)
		}
	})
}
