package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestRerun_MakesARunLikeTheOther(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	priority := 7
	first, err := d.store.Enqueue(t.Context(), queue.Request{
		DAG: "report", Params: map[string]any{"day": "2026-11-20", "n": 2}, Key: "k", LogicalAt: at, Priority: &priority,
		Labels: map[string]string{"who": "ana"},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.store.Rerun(t.Context(), first, nil, false)
	wantError(t, err, nil, "OA014")
	d.end(t, first, "failed")
	d.put(t, reportDAG+"# changed\ndescription: of another version\n")

	again, err := d.store.Rerun(t.Context(), first, map[string]any{"n": 3}, false)
	if err != nil {
		t.Fatal(err)
	}
	got := d.get(t, again)
	if got.RetryOf != first || got.Trigger != "retry" || got.Version != 1 || got.Priority != 7 || string(got.Params) != `{"n": 3, "day": "2026-11-20"}` ||
		!got.LogicalAt.Equal(at) || got.Labels["who"] != "ana" || got.Labels["team"] != "billing" || got.State != "queued" || got.Key != "" {
		t.Errorf("made %+v", got)
	}
	latest, err := d.store.Rerun(t.Context(), first, nil, true)
	if got := d.get(t, latest); err != nil || got.Version != 2 || string(got.Params) != `{"n": 2, "day": "2026-11-20"}` {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = d.store.Rerun(t.Context(), first, map[string]any{"n": 9}, false)
	wantError(t, err, nil, "OA003")
	_, err = d.store.Rerun(t.Context(), first, map[string]any{"dya": "x"}, false)
	wantError(t, err, nil, "OA003")
}

// A user that may not override a DAG's priority cannot get it from a run of a user that may.
func TestRerun_IsForThoseWhoMayAsk(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	priority := 7
	first, err := d.store.Enqueue(t.Context(), queue.Request{DAG: "report", Params: map[string]any{"day": "x"}, Priority: &priority})
	if err != nil {
		t.Fatal(err)
	}
	d.end(t, first, "failed")
	stranger := d.open(t, d.user(t, "stranger", "oarlock_submit"))
	_, err = stranger.Rerun(t.Context(), first, nil, false)
	wantError(t, err, queue.ErrNotFound, "OA007")
	looker := d.open(t, d.user(t, "looker", "oarlock_submit", "oarlock_read"))
	_, err = looker.Rerun(t.Context(), first, nil, false)
	wantError(t, err, nil, "OA005")
	own := d.enqueue(t, stranger)
	d.end(t, own, "canceled")
	if _, err := stranger.Rerun(t.Context(), own, nil, true); err != nil {
		t.Error(err)
	}
	worker := d.open(t, d.user(t, "worker", "oarlock_worker"))
	if _, err := worker.Rerun(t.Context(), first, nil, false); err != nil {
		t.Error(err)
	}
	if _, err := d.open(t, d.user(t, "reader", "oarlock_read")).Rerun(t.Context(), first, nil, false); err == nil {
		t.Error("a reader made a run")
	}
}

// A child belongs to the submitter of its parent, but that submitter did not choose the child's queue.
func TestRerun_OfAChildKeepsOnlyWhatItsDAGAllows(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	ana := d.open(t, d.user(t, "ana", "oarlock_submit"))
	parent := d.enqueue(t, ana)
	child := func(dag string, step int) queue.RunID {
		id := value[queue.RunID](t, d, `SELECT oarlock.enqueue_child($1, $2, '', 0, 1, 1, $3, '{"day": "y"}', priority => 90)`, parent, step, dag)
		d.end(t, id, "failed")
		return id
	}
	d.put(t, strings.Replace(reportDAG, "name: report", "name: open\nallow: {priority: true}", 1))
	forbidden, allowed := child("report", 0), child("open", 1)
	_, err := ana.Rerun(t.Context(), forbidden, nil, false)
	wantError(t, err, nil, "OA005")
	for name, may := range map[string]struct {
		store *queue.Store
		run   queue.RunID
	}{"her own, allowed": {ana, allowed}, "who operates": {d.store, forbidden}} {
		again, err := may.store.Rerun(t.Context(), may.run, nil, false)
		if err != nil || d.get(t, again).Priority != 90 {
			t.Errorf("%s: run %d, %v", name, again, err)
		}
	}
}

func TestControl_ApprovesWithTheInputsThatAreAskedFor(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.put(t, "name: gate\nsteps: [{id: gate, action: approval, with: {prompt: go?, inputs: [{name: amount, required: true}, note]}}]\n")
	run, err := d.store.Enqueue(t.Context(), queue.Request{DAG: "gate"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		given map[string]string
		code  string
	}{
		{map[string]string{}, "OA013"},
		{map[string]string{"amount": ""}, "OA013"},
		{map[string]string{"amount": "7", "nota": "x"}, "OA013"},
		{map[string]string{"amount": "7"}, ""},
		{map[string]string{"amount": "7", "note": "x", "comment": "fine"}, ""},
	} {
		_, err := d.store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbApprove, Step: "gate", Outputs: c.given})
		var known *queue.Error
		switch {
		case c.code == "" && err != nil:
			t.Errorf("%v: %v", c.given, err)
		case c.code != "" && (!errors.As(err, &known) || known.Code != c.code || known.Hint != "it asks for amount, note"):
			t.Errorf("%v: %v, want %s and what it asks for", c.given, err, c.code)
		}
	}
}
