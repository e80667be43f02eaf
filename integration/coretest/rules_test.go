package coretest

import (
	"os"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// TestTriggerRules compares core and model with the table in testdata/rules.txt, in every order of the parents.
func TestTriggerRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for strings.HasPrefix(lines[0], "#") {
		lines = lines[1:]
	}
	rules := strings.Fields(lines[0])[1:]
	cases := 0
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		for i, want := range cells[1:] {
			rule, err := dagrun.ParseRule(rules[i])
			if err != nil {
				t.Fatal(err)
			}
			for _, parents := range permutations(cells[0]) {
				cases++
				checkRule(t, rule, parents, want)
			}
		}
	}
	if cases < 3_600 {
		t.Errorf("%d cases: the table has lost some", cases)
	}
	t.Logf("%d rules, %d multisets of parents, %d cases", len(rules), len(lines)-1, cases)
}

func checkRule(t *testing.T, rule dagrun.Rule, parents, want string) {
	t.Helper()
	says := map[Judgement]string{Undecided: "-", Runs: "runs", Skips: "skips", Fails: "blocked"}
	var classes []Class
	for _, p := range parents {
		if p == '.' {
			p = 0
		}
		classes = append(classes, Class(p))
	}
	if got := says[Judge(rule, classes)]; got != want {
		t.Errorf("model: %s of %s: %s, want %s", rule, parents, got, want)
	}
	if got := coreJudges(t, rule, parents); got != want {
		t.Errorf("core: %s of %s: %s, want %s", rule, parents, got, want)
	}
}

// coreJudges restores a run with parents that have all ended, and returns what became of the child.
func coreJudges(t *testing.T, rule dagrun.Rule, parents string) string {
	t.Helper()
	child := dagrun.Step{Name: "child", Rule: rule}
	spec := dagrun.Spec{Steps: []dagrun.Step{child}}
	saved := dagrun.Saved{Run: dagrun.RunRecord{State: dagrun.RunRunning, Generation: 1, StartedAt: 1}}
	states := map[rune]dagrun.State{'S': dagrun.TaskSucceeded, 'F': dagrun.TaskFailed, 'K': dagrun.TaskSkipped, 'C': dagrun.TaskCanceled}
	for i, p := range parents {
		name := stepName(i)
		spec.Steps = append(spec.Steps, dagrun.Step{Name: name})
		spec.Steps[0].Depends = append(spec.Steps[0].Depends, dagrun.Edge{Step: name})
		if p != '.' {
			row := dagrun.TaskRecord{ID: dagrun.TaskID{Step: i + 1}, Generation: 1, State: states[p], Attempt: 1, StartedAt: 1, AttemptAt: 1, FinishedAt: 2}
			if p == 'F' && i%2 == 1 {
				row.State = dagrun.TaskUpstreamFailed
			}
			saved.Tasks = append(saved.Tasks, row)
		}
	}
	g, err := dagrun.Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	run, err := dagrun.Restore(g, dagrun.Options{}, saved)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Step(dagrun.Event{Kind: dagrun.EvBegin, At: 3}); err != nil {
		t.Fatal(err)
	}
	row, _ := run.Task(dagrun.TaskID{Step: 0})
	says := map[dagrun.State]string{dagrun.TaskPending: "-", dagrun.TaskReady: "runs", dagrun.TaskSkipped: "skips", dagrun.TaskUpstreamFailed: "blocked"}
	return says[row.State]
}

// permutations returns the permutations of a short word, each once.
func permutations(word string) []string {
	if len(word) < 2 {
		return []string{word}
	}
	var all []string
	seen := map[byte]bool{}
	for i := range len(word) {
		if seen[word[i]] {
			continue
		}
		seen[word[i]] = true
		for _, rest := range permutations(word[:i] + word[i+1:]) {
			all = append(all, word[i:i+1]+rest)
		}
	}
	return all
}
