package queue_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

func bulk(n int, keyed bool) queue.Bulk {
	b := queue.Bulk{DAG: "report", Labels: map[string]string{"bulk": "yes"}}
	for i := range n {
		b.Params = append(b.Params, map[string]any{"day": fmt.Sprint(i)})
		if keyed {
			b.Keys = append(b.Keys, fmt.Sprint("key ", i))
		}
	}
	return b
}

func TestEnqueueMany_KeepsTheOrderAndFindsKeys(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	single, err := d.store.Enqueue(t.Context(), queue.Request{DAG: "report", Params: map[string]string{"day": "2"}, Key: "key 2"})
	if err != nil {
		t.Fatal(err)
	}
	b := bulk(5, true)
	b.Keys[4] = ""
	runs, err := d.store.EnqueueMany(t.Context(), b)
	if err != nil || len(runs) != 5 || runs[2] != single {
		t.Fatalf("%v, %v", runs, err)
	}
	if run := d.get(t, runs[3]); run.Key != "key 3" || string(run.Params) != `{"day": "3"}` || run.Labels["bulk"] != "yes" {
		t.Errorf("%+v", run)
	}
	if again, err := d.store.EnqueueMany(t.Context(), b); err != nil || !slices.Equal(again[:4], runs[:4]) || again[4] == runs[4] {
		t.Errorf("%v, then %v, %v", runs, again, err)
	}
	if none, err := d.store.EnqueueMany(t.Context(), queue.Bulk{DAG: "report"}); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}

func TestEnqueueMany_IsAllOrNone(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	bad := bulk(3, false)
	bad.Params[1] = nil
	_, err := d.store.EnqueueMany(t.Context(), bad)
	wantError(t, err, nil, "OA003")
	bad.Params[1] = func() {}
	_, err = d.store.EnqueueMany(t.Context(), bad)
	wantError(t, err, nil, "")
	short := bulk(3, true)
	short.Keys = short.Keys[1:]
	_, err = d.store.EnqueueMany(t.Context(), short)
	wantError(t, err, nil, "")
	_, err = d.store.EnqueueMany(t.Context(), queue.Bulk{DAG: "report", Params: make([]any, queue.MaxBulk+1)})
	wantError(t, err, nil, "")
	if n := value[int](t, d, "SELECT count(*) FROM oarlock.runs"); n != 0 {
		t.Errorf("%d runs", n)
	}
}

func TestEnqueueMany_OutlivesALostReplyByItsKeys(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	proxy, store := d.through(t)
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 20"), Do: netfault.Cut})
	runs, err := store.EnqueueMany(t.Context(), bulk(20, true))
	cut.MustFire(t)
	if n := value[int](t, d, "SELECT count(*) FROM oarlock.runs"); err != nil || len(runs) != 20 || n != 20 {
		t.Errorf("%d numbers of %d runs, %v", len(runs), n, err)
	}
	cut = proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 20"), Do: netfault.Cut})
	_, err = store.EnqueueMany(t.Context(), bulk(20, false))
	cut.MustFire(t)
	wantError(t, err, queue.ErrUnknown, "")
	if n := value[int](t, d, "SELECT count(*) FROM oarlock.runs"); n != 40 {
		t.Errorf("%d runs after one lost reply: tried again", n)
	}
}
