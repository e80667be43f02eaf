package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// costly is a DAG with an expression for each of many items, each of which exceeds the cost limit of an expression.
const (
	costlyItems = 1000
	costly      = `
name: costly
params: [{name: items, type: json}, {name: j, type: json}]
steps:
  - id: each
    run: "true"
    foreach: {items: "${params.items}", max_items: 1000}
    when: 'count(params.j, {let x = #; count(params.j, {# == x + item}) > 0}) > 0'
`
)

// A cancel takes effect while expressions are evaluated: it waits for one expression, not for all.
func TestDriver_ACancelGetsInBetweenCostlyExpressions(t *testing.T) {
	t.Parallel()
	b := setup(t, costly)
	texts, items := make([]string, 5000), make([]string, costlyItems)
	for i := range texts {
		texts[i] = fmt.Sprintf("text %d", i)
	}
	for i := range items {
		items[i] = fmt.Sprintf("item %d", i)
	}
	b.start(t, "w1", nil)
	id, err := b.Enqueue(t.Context(), queue.Request{DAG: "costly", Params: map[string]any{"items": items, "j": texts}})
	if err != nil {
		t.Fatal(err)
	}
	b.untilState(t, id, "failed")
	if _, err := b.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbCancel}); err != nil {
		t.Fatal(err)
	}
	if r := b.await(t, id); r.State != "canceled" {
		t.Errorf("the run is %s (%s), want canceled", r.State, r.Reason)
	}
	tasks, err := b.Tasks(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i := range tasks {
		if tasks[i].Item == "" || tasks[i].State != "failed" {
			continue
		}
		failed++
		if want := "needs more than 100 ms of one core"; !strings.Contains(tasks[i].Reason, want) || !strings.Contains(tasks[i].Reason, "count(params.j") {
			t.Errorf("item %s failed: %q, want the expression and %q", tasks[i].Item, tasks[i].Reason, want)
		}
	}
	if failed == 0 || failed > costlyItems/2 {
		t.Errorf("%d of %d items were judged before the cancel", failed, costlyItems)
	}
}

// untilState waits until some task of a run is in a state.
func (b *testBundle) untilState(t *testing.T, id queue.RunID, state string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		tasks, err := b.Tasks(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tasks {
			if tasks[i].State == state {
				return
			}
		}
	}
	t.Fatalf("no task of run %d is %s", id, state)
}
