package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// chaosResult is the result of a seed.
type chaosResult struct {
	counts       map[string]int // of what was played and checked
	faults       map[string]int // by kind
	longest      time.Duration  // the longest wait of a run beside a free slot
	lag          time.Duration  // the longest time that the machine made the test itself wait for its turn
	violations   []string
	inconclusive []string // breaches seen while the machine itself stood still for too long
}

func newChaosResult() *chaosResult {
	return &chaosResult{counts: map[string]int{}, faults: map[string]int{}}
}

// chaosSummary adds up the results of seeds, which lanes report side by side.
type chaosSummary struct {
	mu    sync.Mutex
	scene map[scene]int
	clean int
	chaosResult
}

func newChaosSummary() *chaosSummary {
	return &chaosSummary{scene: map[scene]int{}, chaosResult: *newChaosResult()}
}

func (s *chaosSummary) add(played scene, r *chaosResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scene[played]++
	if len(r.violations) == 0 {
		s.clean++
	}
	for what, n := range r.counts {
		s.counts[what] += n
	}
	for kind, n := range r.faults {
		s.faults[kind] += n
	}
	s.longest, s.lag = max(s.longest, r.longest), max(s.lag, r.lag)
	s.violations = append(s.violations, r.violations...)
	s.inconclusive = append(s.inconclusive, r.inconclusive...)
}

// String returns the summary that make chaos prints at its end.
func (s *chaosSummary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d without a violation; %d faults, %d violations, %d inconclusive; ", sum(s.scene), s.clean, sum(s.faults), len(s.violations), len(s.inconclusive))
	fmt.Fprintf(&b, "waited beside a free slot for up to %d ms, lag up to %d ms\n", s.longest.Milliseconds(), s.lag.Milliseconds())
	list(&b, "seeds of the scene", s.scene)
	list(&b, "counted", s.counts)
	list(&b, "fault", s.faults)
	return b.String()
}

func sum[K comparable](counts map[K]int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

func list[K ~string](b *strings.Builder, what string, counts map[K]int) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "%9d  %s: %s\n", counts[name], what, name)
	}
}

func TestChaosSummary_AddsUp(t *testing.T) {
	t.Parallel()
	s := newChaosSummary()
	s.add(plainScene, &chaosResult{counts: map[string]int{"tasks": 10}, faults: map[string]int{"kill": 2, "cut": 1}, longest: 210 * time.Millisecond})
	s.add(syncScene, &chaosResult{counts: map[string]int{"tasks": 5}, faults: map[string]int{"cut": 4}, lag: time.Second, violations: []string{"S1 run 4: twice"}})
	want := `2 seeds, 1 without a violation; 7 faults, 1 violations, 0 inconclusive; waited beside a free slot for up to 210 ms, lag up to 1000 ms
        1  seeds of the scene: plain
        1  seeds of the scene: synchronous failover
       15  counted: tasks
        5  fault: cut
        2  fault: kill
`
	if got := s.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
