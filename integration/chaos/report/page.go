package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// total is a sum of results.
type total struct {
	seeds, clean int
	faults       int
	Result
}

func sum(results []Result) *total {
	t := &total{Result: Result{Faults: map[string]int{}}}
	for i := range results {
		t.add(&results[i])
	}
	return t
}

func (t *total) add(r *Result) {
	t.seeds++
	if len(r.Violations) == 0 {
		t.clean++
	}
	for kind, n := range r.Faults {
		t.Faults[kind] += n
		t.faults += n
	}
	t.Runs += r.Runs
	t.Tasks += r.Tasks
	t.Attempts += r.Attempts
	t.Lost += r.Lost
	t.Takeovers += r.Takeovers
	t.Changes += r.Changes
	t.Sights += r.Sights
	t.LogBytes += r.LogBytes
	t.Calls += r.Calls
	t.Canceled += r.Canceled
	t.Moments += r.Moments
	t.Unsure += r.Unsure
	t.Open += r.Open
	t.Waits += r.Waits
	t.Held += r.Held
	t.Beside += r.Beside
	t.LongestMS = max(t.LongestMS, r.LongestMS)
	t.Moves += r.Moves
	t.TookMS += r.TookMS
	t.LagMS = max(t.LagMS, r.LagMS)
	t.Violations = append(t.Violations, named(r, r.Violations)...)
	t.Inconclusive = append(t.Inconclusive, named(r, r.Inconclusive)...)
}

// streak is how many of the last seeds broke nothing.
func streak(results []Result) (n int) {
	for i := len(results) - 1; i >= 0 && len(results[i].Violations) == 0; i-- {
		n++
	}
	return n
}

func named(r *Result, what []string) (lines []string) {
	for _, w := range what {
		lines = append(lines, fmt.Sprintf("seed %d (%s): %s", r.Seed, r.Scene, w))
	}
	return lines
}

// Page is a document about results.
func Page(results []Result) string {
	var p strings.Builder
	t := sum(results)
	p.WriteString("# Fault runs\n\nMade from the results file by `make chaos-report`; [promises](promises.md) says what is checked, and what is not promised.\n\n")
	p.WriteString("| | |\n|---|--:|\n")
	for _, row := range []struct {
		what string
		n    int64
	}{
		{"seeds", int64(t.seeds)},
		{"seeds without a violation", int64(t.clean)},
		{"of these, played last and in a row", int64(streak(results))},
		{"faults", int64(t.faults)},
		{"runs", int64(t.Runs)},
		{"tasks that started", int64(t.Tasks)},
		{"attempts", int64(t.Attempts)},
		{"attempts whose driver was lost", int64(t.Lost)},
		{"takeovers: drives after a run's first", int64(t.Takeovers)},
		{"runs that ended canceled", int64(t.Canceled)},
		{"changes of the audit trail, each looked at", int64(t.Changes)},
		{"lines of the witness", int64(t.Sights)},
		{"bytes of logs, compared with what tasks wrote", t.LogBytes},
		{"calls of clients, checked for linearizability", int64(t.Calls)},
		{"moments at which the sharing of work was looked at", int64(t.Moments)},
		{"of these, moments that say nothing, since the sampler itself was late", int64(t.Unsure)},
		{"moments at which a worker had a free slot, by all that is known", int64(t.Open)},
		{"runs that waited for nothing but a slot, each time looked at", int64(t.Waits)},
		{"of these, those on a worker that had claimed them", int64(t.Held)},
		{"of these waits, those that some worker had a free slot for", int64(t.Beside)},
		{"the longest that one of these waited, in ms; 1500 are allowed", t.LongestMS},
		{"moves of runs for want of a slot, each looked at", int64(t.Moves)},
		{"**violations**", int64(len(t.Violations))},
		{"inconclusive: seen while the machine itself stood still", int64(len(t.Inconclusive))},
	} {
		fmt.Fprintf(&p, "| %s | %d |\n", row.what, row.n)
	}
	p.WriteString("\n## Faults by kind\n\n| kind | times |\n|---|--:|\n")
	for _, kind := range slices.Sorted(maps.Keys(t.Faults)) {
		fmt.Fprintf(&p, "| %s | %d |\n", kind, t.Faults[kind])
	}
	scenes(&p, results)
	list(&p, "Violations", t.Violations)
	list(&p, "Inconclusive", t.Inconclusive)
	fmt.Fprintf(&p, "\n## How to replay\n\n`make chaos SEED=n` plays one seed again, `make chaos SEEDS=50` fifty fresh ones. A seed fixes the traffic, the faults, their\norder and their targets; not the moments at which the kernel gives each process its turn. In these runs the machine let the\ntest itself wait for its turn for up to %d ms; the lease was 3 s.\n", t.LagMS)
	return p.String()
}

func scenes(p *strings.Builder, results []Result) {
	of := map[string][]Result{}
	for i := range results {
		of[results[i].Scene] = append(of[results[i].Scene], results[i])
	}
	p.WriteString("\n## By scene\n\n| scene | seeds | faults | tasks | takeovers | violations |\n|---|--:|--:|--:|--:|--:|\n")
	for _, scene := range slices.Sorted(maps.Keys(of)) {
		t := sum(of[scene])
		fmt.Fprintf(p, "| %s | %d | %d | %d | %d | %d |\n", scene, t.seeds, t.faults, t.Tasks, t.Takeovers, len(t.Violations))
	}
}

const maxListed = 50

func list(p *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(p, "\n## %s\n\n", title)
	for _, line := range lines[:min(len(lines), maxListed)] {
		fmt.Fprintf(p, "- %s\n", line)
	}
}
