package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPage_AddsUpWhatWasAppended(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.jsonl")
	want := []Result{
		{Seed: 1, Scene: "plain", Faults: map[string]int{"kill -9": 2, "cut": 1}, Tasks: 10, Takeovers: 2, Moments: 100, Unsure: 2, Open: 60, Waits: 7, Held: 2, Beside: 3, LongestMS: 210, Moves: 4},
		{Seed: 2, Scene: "failover", Faults: map[string]int{"cut": 4}, Tasks: 5, Moments: 50, Open: 20, Waits: 1, LongestMS: 100, Moves: 1, Violations: []string{"S1 run 4: twice"}},
	}
	for i := range want {
		if err := Append(path, &want[i]); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	page := Page(got)
	for _, line := range []string{
		"| seeds | 2 |", "| seeds without a violation | 1 |", "| of these, played last and in a row | 0 |", "| faults | 7 |", "| tasks that started | 15 |", "| cut | 5 |",
		"| moments at which the sharing of work was looked at | 150 |", "| of these, moments that say nothing, since the sampler itself was late | 2 |",
		"| moments at which a worker had a free slot, by all that is known | 80 |", "| runs that waited for nothing but a slot, each time looked at | 8 |",
		"| of these, those on a worker that had claimed them | 2 |", "| of these waits, those that some worker had a free slot for | 3 |", "| the longest that one of these waited, in ms; 1500 are allowed | 210 |",
		"| moves of runs for want of a slot, each looked at | 5 |",
		"| failover | 1 | 4 | 5 | 0 | 1 |", "| **violations** | 1 |", "- seed 2 (failover): S1 run 4: twice",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %q in\n%s", line, page)
		}
	}
}
