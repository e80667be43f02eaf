package cli

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// Counting stops at a bound. The sum of a dry run is marked as a lower bound whenever a number of its table is.
func TestPrune_DryRunSaysThatASumIsALowerBound(t *testing.T) {
	t.Parallel()
	most := int64(queue.MaxCounted)
	for _, c := range []struct {
		found  queue.Prunable
		want   string
		capped bool
	}{
		{queue.Prunable{Pruned: queue.Pruned{Runs: most - 1}, DAGs: []queue.PrunableDAG{{DAG: "a", Runs: most - 1}}}, "would delete 99999 runs, 0 days of logs, 0 keys, 0 workers", false},
		{queue.Prunable{Pruned: queue.Pruned{Runs: most}, DAGs: []queue.PrunableDAG{{DAG: "a", Runs: most}}}, "would delete 100000+ runs, 0 days of logs, 0 keys, 0 workers", true},
		{queue.Prunable{Pruned: queue.Pruned{Runs: most + 1}, DAGs: []queue.PrunableDAG{{DAG: "a", Runs: most}, {DAG: "b", Runs: 1}}}, "would delete 100001+ runs, ", true},
		{queue.Prunable{Pruned: queue.Pruned{Runs: most}, DAGs: []queue.PrunableDAG{{DAG: "a", Runs: most / 2}, {DAG: "b", Runs: most / 2}}}, "would delete 100000 runs, ", false},
		{queue.Prunable{Pruned: queue.Pruned{Runs: 1, Keys: most}, DAGs: []queue.PrunableDAG{{DAG: "a", Runs: 1}}}, "would delete 1 run, 0 days of logs, 100000+ keys, 0 workers", true},
	} {
		got := prunableAnswer(&c.found, newPainter(false))
		lines := strings.Split(strings.TrimSuffix(got.text, "\n"), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, c.want) {
			t.Errorf("%+v: got %q, want %q", c.found, last, c.want)
		}
		if j, ok := got.object.(jsonPruned); !ok || j.Capped != c.capped {
			t.Errorf("%+v: got %+v, want capped %v", c.found, got.object, c.capped)
		}
	}
}
