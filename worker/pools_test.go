package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// busyService is an executor of a service that wants no more requests for an hour.
type busyService struct{ *bodies }

func (r busyService) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	res := r.bodies.Execute(ctx, t)
	t.LeaveAlone = time.Hour
	return res
}

// The key of a pool is closed before the permit of the body goes to the next one, and other keys stay open.
func TestPools_AServiceThatRefusesIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: none\nsteps: [{id: a, run: x}]\n")
	if _, err := b.SetPool(t.Context(), "crm", queue.PoolLimits{Slots: 1, PerKey: true}); err != nil {
		t.Fatal(err)
	}
	b.put(t, "name: d\nparams: [{name: tenant, type: string, required: true}]\nsteps:\n  - {id: a, run: x, pool: {name: crm, key: '${params.tenant}'}}\n")
	b.start(t, "w", func(c *worker.Config) { c.Executors = map[string]worker.Executor{"process": busyService{b.bodies}} })
	var runs []queue.RunID
	for _, tenant := range []string{"acme", "acme", "bolt"} {
		id, err := b.Enqueue(t.Context(), queue.Request{DAG: "d", Params: map[string]any{"tenant": tenant}})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, id)
	}
	b.await(t, runs[2])
	ended := 0
	for _, id := range runs[:2] {
		if r, err := b.Get(t.Context(), id); err == nil && r.Over() {
			ended++
		}
	}
	if ended > 1 {
		t.Error("a second body of the key has started")
	}
	for _, id := range runs[:2] {
		if _, err := b.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbCancel}); err != nil && ended == 0 {
			t.Error(err)
		}
	}
}

// A pool of one slot lets one body run at a time, whatever the worker has free, and each record of an end is durable before the next
// body starts.
func TestPools_StartTheNextOnceTheRecordIsDurable(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: none\nsteps: [{id: a, run: x}]\n")
	if _, err := b.SetPool(t.Context(), "one", queue.PoolLimits{Slots: 1}); err != nil {
		t.Fatal(err)
	}
	b.put(t, "name: d\nsteps:\n  - {id: a, run: x, pool: one}\n  - {id: b, run: x, pool: one}\n  - {id: c, run: x, pool: one}\n")
	b.start(t, "w", nil)
	id := b.enqueue(t, "d")
	for n := range 3 {
		<-b.bodies.started
		done := 0
		tasks, err := b.Tasks(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if task.State == "succeeded" {
				done++
			}
		}
		if done < n {
			t.Errorf("body %d starts when %d ends are recorded", n+1, done)
		}
	}
	if r := b.await(t, id); r.State != "succeeded" {
		t.Errorf("the run is %s: %s", r.State, r.Reason)
	}
}
