package queue_test

import (
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestGet_ReadsRunTasksAndResult(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	id := d.enqueue(t, d.store)
	d.claim(t, id)
	d.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, outputs, exit_code, worker, started_at, finished_at)
		VALUES ($1, 0, 'succeeded', 1, 1, 1, 1, '{"rows": "7"}', 0, 'w', now(), now())`, id)
	run := d.get(t, id)
	if run.State != "running" || run.Epoch != 1 || run.Worker == "" || run.StartedAt.IsZero() || run.Over() {
		t.Errorf("%+v", run)
	}
	tasks, err := d.store.Tasks(t.Context(), id)
	if err != nil || len(tasks) != 3 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	if a := tasks[0]; a.Step != "extract" || a.State != "succeeded" || *a.ExitCode != 0 || string(a.Outputs) != `{"rows": "7"}` || a.FinishedAt.IsZero() {
		t.Errorf("%+v", a)
	}
	if b := tasks[1]; b.Step != "load" || b.State != "pending" || b.ExitCode != nil || b.Attempt != 0 || !b.StartedAt.IsZero() {
		t.Errorf("%+v", b)
	}
	if result, err := d.store.Result(t.Context(), id); err != nil || result.State != "running" || result.Outputs != nil || !result.FinishedAt.IsZero() {
		t.Errorf("%+v, %v", result, err)
	}
	d.exec(t, `UPDATE oarlock.runs SET counts = '{"total": 3, "open": 1, "succeeded": 1, "upstream_failed": 1}', tolerated = 2 WHERE run_id = $1`, id)
	d.end(t, id, "succeeded")
	if result, err := d.store.Result(t.Context(), id); err != nil || string(result.Outputs["extract"]) != `{"rows": "7"}` || result.Tolerated != 2 || result.FinishedAt.IsZero() {
		t.Errorf("%+v, %v", result, err)
	}
	if run := d.get(t, id); !run.Over() || run.Counts.UpstreamFailed != 1 || run.Counts.Total != 3 {
		t.Errorf("%+v", run)
	}
}

func TestGet_SaysThatThereIsNone(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	_, err := d.store.Get(t.Context(), 777)
	wantError(t, err, queue.ErrNotFound, "")
	_, err = d.store.Tasks(t.Context(), 777)
	wantError(t, err, queue.ErrNotFound, "")
	_, err = d.store.Result(t.Context(), 777)
	wantError(t, err, queue.ErrNotFound, "")
}
