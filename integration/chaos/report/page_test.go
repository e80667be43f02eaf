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
		{Seed: 1, Scene: "plain", Faults: map[string]int{"kill -9": 2, "cut": 1}, Tasks: 10, Takeovers: 2},
		{Seed: 2, Scene: "failover", Faults: map[string]int{"cut": 4}, Tasks: 5, Violations: []string{"S1 run 4: twice"}},
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
		"| failover | 1 | 4 | 5 | 0 | 1 |", "| **violations** | 1 |", "- seed 2 (failover): S1 run 4: twice",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %q in\n%s", line, page)
		}
	}
}
