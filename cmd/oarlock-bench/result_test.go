package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

func TestShort_KeepsThreeDigits(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 3: "3", 0.25: "0.25", 0.012345: "0.012", 12.34: "12.3", 123.4: "123", 1234.5: "1,234", 1234567: "1,234,567", -54321: "-54,321",
	} {
		if got := short(v); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
}

func TestQuantile_IsAValueOfTheList(t *testing.T) {
	t.Parallel()
	values := []int{5, 1, 4, 2, 3}
	for q, want := range map[float64]int{0.01: 1, 0.5: 3, 0.8: 4, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v of %v: %d, want %d", q, values, got, want)
		}
	}
	if got := quantile([]int(nil), 0.5); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

// The ratio of the medians would be 1 here, although in each round one side was twice as fast.
func TestJudge_ComparesRoundByRound(t *testing.T) {
	t.Parallel()
	r := &Result{Figures: rounds{
		"a": {"steps/s": {10, 20, 40}},
		"b": {"steps/s": {5, 10, 20}},
	}.figures()}
	err := r.judge([]Goal{
		{Side: "a", Metric: "steps/s", Of: "b", AtLeast: 2.5},
		{Side: "b", Metric: "steps/s", AtMost: 10},
		{Side: "a", Metric: "steps/s", Of: "nobody"},
		{Side: "b", Metric: "steps/s", Of: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range r.Lines {
		got = append(got, l.mark()+" "+l.String())
	}
	want := "✗ a / b: steps/s  2, wanted ≥ 2.50\n✓ b: steps/s  10 (5 … 20), wanted ≤ 10\n· b / a: steps/s  0.50"
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("judged as\n%s\nwant\n%s", text, want)
	}
}

func TestTakeTurns_GoesRoundAndStopsAtAFailure(t *testing.T) {
	t.Parallel()
	var order strings.Builder
	side := func(name string, fails int) Side {
		turns := 0
		return Side{Name: name, Round: func(context.Context) (Sample, error) {
			order.WriteString(name)
			if turns++; turns == fails {
				return Sample{}, errors.New("no more")
			}
			return Sample{Values: Values{"m": float64(turns)}}, nil
		}}
	}
	turn := func(ctx context.Context, side Side) (Values, error) {
		sample, err := side.Round(ctx)
		return sample.Values, err
	}
	all, err := takeTurns(t.Context(), []Side{side("a", 0), side("b", 0)}, 3, t.Logf, turn)
	if err != nil || order.String() != "ababab" || !slices.Equal(all["b"]["m"], []float64{1, 2, 3}) {
		t.Errorf("took turns as %s, which gave %v, %v", &order, all, err)
	}
	if _, err := takeTurns(t.Context(), []Side{side("a", 2)}, 3, t.Logf, turn); err == nil || !strings.Contains(err.Error(), "a, round 2") {
		t.Errorf("a failure is told as %v", err)
	}
}

func TestJudge_RefusesRoundsThatAreNotPairs(t *testing.T) {
	t.Parallel()
	r := &Result{Figures: rounds{"a": {"m": {1, 2}}, "b": {"m": {1}}}.figures()}
	if err := r.judge([]Goal{{Side: "a", Metric: "m", Of: "b"}}); err == nil {
		t.Error("two rounds were compared with one")
	}
}

func TestCounters_AreDividedByTheWorkDone(t *testing.T) {
	t.Parallel()
	now, before := &Counters{Statements: 30, Rows: 50, WALBytes: 1000}, &Counters{Statements: 10, Rows: 10, WALBytes: 500}
	got := now.since(before, 10)
	if got[statementsPer] != 2 || got[rowsPer] != 4 || got[walPer] != 50 {
		t.Errorf("per unit: %v", got)
	}
	if got := (*Counters)(nil).since(nil, 10); got != nil {
		t.Errorf("nothing was counted, but %v", got)
	}
}

func TestProcessorTime_GrowsWithWorkDoneHere(t *testing.T) {
	t.Parallel()
	before, err := familyTime(os.Getpid())
	if err != nil {
		t.Skip("this kernel does not tell: ", err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		now, err := familyTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if spent := now - before; spent >= 5*procfs.Tick {
			per := processorTime{server: now}.since(processorTime{server: before}, 10)
			if per[serverMicros] != float64(spent.Microseconds())/10 || per[processMicros] != 0 {
				t.Errorf("%s of work for 10 units are %v each", spent, per)
			}
			return
		}
	}
	t.Error("a minute of work took no processor time")
}

func TestUneven_CountsWhoGotNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		driven []int
		want   float64
	}{{[]int{50, 50}, 0}, {[]int{60, 40}, 0.2}, {[]int{100}, 1}} {
		if got := uneven(c.driven, 100, 2); got != c.want {
			t.Errorf("%v: %v from even, want %v", c.driven, got, c.want)
		}
	}
}

func lines(ratio, latency float64) *Result {
	r := &Result{Case: "chain", Figures: rounds{"a": {"rate": {ratio}, "ms": {latency}}, "b": {"rate": {1}, "ms": {1}}}.figures()}
	_ = r.judge([]Goal{
		{Side: "a", Metric: "rate", Of: "b", AtLeast: 1, Guarded: true},
		{Side: "a", Metric: "ms", Of: "b", AtMost: 1, Guarded: true, Slack: 0.5},
		{Side: "a", Metric: "rate"},
	})
	return r
}

func TestRatios_FallWhenTheyAreWorseByMoreThanTheirSlack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ratios.json")
	if err := keepRatios(path, []*Result{lines(2, 2)}); err != nil {
		t.Fatal(err)
	}
	kept, err := readRatios(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept.Ratios) != 2 {
		t.Fatalf("kept %v: want the two that are guarded", kept.Ratios)
	}
	for _, c := range []struct {
		ratio, latency float64
		fell           int
	}{{2, 2, 0}, {3, 1, 0}, {1.41, 2.9, 0}, {1.39, 2, 1}, {2, 3.1, 1}, {1, 4, 2}} {
		if got := len(kept.worse(lines(c.ratio, c.latency))); got != c.fell {
			t.Errorf("at %v and %v: %d fell, want %d", c.ratio, c.latency, got, c.fell)
		}
		var out strings.Builder
		if fell := kept.compare(&out, lines(c.ratio, c.latency)); fell != (c.fell > 0) || strings.Count(out.String(), "FELL") != c.fell {
			t.Errorf("at %v and %v it says\n%s", c.ratio, c.latency, out.String())
		}
	}
}

// Ratios of cases that were not measured now stay as they are.
func TestRatios_AreKeptCaseByCase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ratios.json")
	other := lines(5, 5)
	other.Case = "single"
	for _, results := range [][]*Result{{lines(2, 2), other}, {lines(3, 3)}} {
		if err := keepRatios(path, results); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := readRatios(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, r := range kept.Ratios {
		got = append(got, r.Ratio)
	}
	if want := []float64{3, 3, 5, 5}; len(got) != 4 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
		t.Errorf("kept %v, want %v", got, want)
	}
}

// The committed file names only goals that exist.
func TestRatios_TheCommittedFileIsAboutGoalsThatAre(t *testing.T) {
	t.Parallel()
	kept, err := readRatios("ratios.json")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range cases() {
		for _, g := range c.Goals {
			if g.Guarded {
				known[c.Name+" "+g.String()] = true
			}
		}
	}
	for _, r := range kept.Ratios {
		if !known[r.Case+" "+r.What] {
			t.Errorf("%s: %s is no guarded goal: run make bench-keep", r.Case, r.What)
		}
		delete(known, r.Case+" "+r.What)
	}
	for goal := range known {
		t.Errorf("%s is not committed: run make bench-keep", goal)
	}
}
