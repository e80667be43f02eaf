package runview

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/queue"
)

// Programs read params, labels and outputs without a check whether there are any.
func TestStatusJSON_HasObjectsForNothing(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.FixedZone("", 3600))
	run := queue.Run{ID: 41, DAG: "etl", State: "waiting", Params: json.RawMessage("null"), CreatedAt: at}
	status := NewStatusJSON(&run, []queue.Task{
		{Step: "load", State: "succeeded", Worker: "w1", FinishedAt: at},
		{Step: "confirm", State: "waiting", Approval: &queue.Question{Since: at}},
	}, nil)
	if got := NewStatusJSON(&run, nil, nil); got.Tasks == nil || got.ItemCounts == nil {
		t.Error("a run without tasks or items has null for them")
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(CompactJSON(status)), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"params": map[string]any{}, "labels": map[string]any{}, "worker": "w1", "parent": nil, "reason": nil, "started_at": nil,
		"created_at": "2026-11-22T11:00:00Z",
	}
	for key, value := range want {
		if diff := cmp.Diff(value, got[key]); diff != "" {
			t.Errorf("%s: - want, + got\n%s", key, diff)
		}
	}
	tasks, ok := got["tasks"].([]any)
	if !ok || len(tasks) != 2 {
		t.Fatalf("the tasks are %v", got["tasks"])
	}
	first, second := tasks[0].(map[string]any), tasks[1].(map[string]any)
	if first["approval"] != nil || first["item"] != nil || first["outputs"] == nil {
		t.Errorf("the first task is %v", first)
	}
	question := map[string]any{"prompt": nil, "inputs": []any{}, "approvers": nil, "may_decide": false, "since": "2026-11-22T11:00:00Z", "deadline": nil}
	if diff := cmp.Diff(question, second["approval"]); diff != "" {
		t.Errorf("approval: - want, + got\n%s", diff)
	}
}

func TestEncodeJSON_FailsForATimeWithoutAForm(t *testing.T) {
	t.Parallel()
	if text, err := EncodeJSON(NewRunJSON(&queue.Run{RunAt: time.Date(294276, 1, 1, 0, 0, 0, 0, time.UTC)})); err == nil || text != "" {
		t.Errorf("%s, %v", text, err)
	}
}

func TestCompactJSON_CanBeTyped(t *testing.T) {
	t.Parallel()
	if got, want := CompactJSON([]string{"a < b && c", "x\u202ey"}), `["a < b && c","x\u202ey"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
