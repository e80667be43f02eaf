package queue_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/oarlock-dev/oarlock/queue"
)

// pool returns the pool of this name, without the times that a test cannot know.
func (d *clientBundle) pool(t *testing.T, name string) queue.Pool {
	t.Helper()
	pools, err := d.store.Pools(t.Context(), name)
	if err != nil || len(pools) != 1 || pools[0].SetBy == "" || pools[0].SetAt.IsZero() {
		t.Fatalf("%+v, %v", pools, err)
	}
	p := pools[0]
	p.SetBy, p.SetAt = "", time.Time{}
	return p
}

// permits brings about a worker with permits of the pool crm: it has one for the key acme, and waits for others. It gives them to
// runs from 41 on.
func (d *clientBundle) permits(t *testing.T) {
	t.Helper()
	d.claim(t, d.enqueue(t, d.store))
	d.exec(t, "INSERT INTO oarlock.fences (worker_id, channel) SELECT w.worker_id, 'permits' FROM oarlock.workers w")
	d.exec(t, "INSERT INTO oarlock.permit_calls (worker_id, call) SELECT w.worker_id, 1 FROM oarlock.workers w")
	d.exec(t, `INSERT INTO oarlock.permits (worker_id, nth, pool, key, weight, run_id, run_priority, step_priority, since, granted_at)
		SELECT w.worker_id, p.nth, 'crm', p.key, p.weight, p.run, p.priority, 0, now() - interval '1 minute', p.granted_at
		  FROM oarlock.workers w, (VALUES (1, 'acme', 2, 1, 0, now()), (2, 'acme', 1, 42, 0, NULL), (3, 'acme', 1, 43, 5, NULL), (4, 'ajax', 1, 44, 0, NULL))
		       p (nth, key, weight, run, priority, granted_at)`)
}

func TestPools_AreListedAsTheyWereSet(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	crm := queue.PoolLimits{Slots: 2, PerKey: true, Rate: 100, Per: time.Minute, Burst: 20, Note: "their limit"}
	for i, c := range []struct {
		pool        string
		set, listed queue.PoolLimits
		isNew       bool
	}{
		{"heavy", queue.PoolLimits{Slots: 5}, queue.PoolLimits{Slots: 5}, true},
		{"crm", crm, crm, true},
		{"heavy", queue.PoolLimits{Rate: 3, Per: time.Second}, queue.PoolLimits{Rate: 3, Per: time.Second, Burst: 1}, false},
	} {
		if isNew, err := d.store.SetPool(t.Context(), c.pool, c.set); err != nil || isNew != c.isNew {
			t.Fatalf("%d: new: %v, %v", i, isNew, err)
		}
		if diff := cmp.Diff(queue.Pool{Name: c.pool, PoolLimits: c.listed}, d.pool(t, c.pool)); diff != "" {
			t.Errorf("%d: - want, + got\n%s", i, diff)
		}
	}
	for _, refused := range []queue.PoolLimits{{}, {Slots: -1}, {Slots: 1_000_001}, {Rate: 1}, {Rate: 1, Per: 48 * time.Hour}, {Slots: 1, Burst: 2}} {
		_, err := d.store.SetPool(t.Context(), "heavy", refused)
		wantError(t, err, nil, "OA013")
	}
	d.permits(t)
	all, err := d.store.Pools(t.Context(), "")
	if err != nil || len(all) != 2 || all[0].Name != "crm" || all[0].Oldest < time.Minute {
		t.Fatalf("%+v, %v", all, err)
	}
	if p := all[0]; p.Taken != 2 || p.Waiting != 3 || p.Keys != 2 {
		t.Errorf("%+v", p)
	}
	if none, err := d.store.Pools(t.Context(), "none"); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestPools_CloseAsAWholeOrByKey(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	if _, err := d.store.SetPool(t.Context(), "crm", queue.PoolLimits{Slots: 2, PerKey: true}); err != nil {
		t.Fatal(err)
	}
	mustAll(t,
		d.store.ClosePool(t.Context(), "crm", "", 0), d.store.ClosePool(t.Context(), "crm", "acme", 10*time.Minute),
		d.store.SetPoolKey(t.Context(), "crm", "acme", 7), d.store.SetPoolKey(t.Context(), "crm", "ajax", 1),
	)
	if c := d.pool(t, "crm").Closed; c.By == "" || !c.Until.IsZero() {
		t.Errorf("%+v", c)
	}
	keys := func(key string) []queue.PoolKey {
		t.Helper()
		keys, err := d.store.PoolKeys(t.Context(), "crm", key, 9)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	both := keys("")
	if len(both) != 2 || both[0].Key != "acme" || both[0].Slots != 7 || both[0].Closed.By == "" || time.Until(both[0].Closed.Until) < 9*time.Minute {
		t.Errorf("%+v", both)
	}
	wantEqual(t, both[1:], keys("ajax"))
	wantEqual(t, both[1], queue.PoolKey{Key: "ajax", Slots: 1})
	mustAll(t,
		d.store.OpenPool(t.Context(), "crm", ""), d.store.OpenPool(t.Context(), "crm", "acme"),
		d.store.SetPoolKey(t.Context(), "crm", "ajax", 0),
	)
	wantEqual(t, keys(""), []queue.PoolKey{{Key: "acme", Slots: 7}})
	wantEqual(t, d.pool(t, "crm").Closed, queue.PoolClosure{})
	wantError(t, d.store.SetPoolKey(t.Context(), "crm", "acme", -1), nil, "OA013")
	wantError(t, d.store.SetPoolKey(t.Context(), "none", "acme", 1), nil, "OA013")
	wantError(t, d.store.ClosePool(t.Context(), "none", "", 0), nil, "OA013")
	wantError(t, d.store.OpenPool(t.Context(), "none", ""), nil, "OA013")
}

// Permits of workers come first, then those that wait, in the order of service: by the priority of the run before the time.
func TestPoolPermits_AreInOrder(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	if _, err := d.store.SetPool(t.Context(), "crm", queue.PoolLimits{Slots: 2, PerKey: true}); err != nil {
		t.Fatal(err)
	}
	d.permits(t)
	acme := []queue.PoolPermit{
		{Key: "acme", Worker: "w1", Run: 1, DAG: "report", Weight: 2},
		{Key: "acme", Worker: "w1", Run: 43, Weight: 1},
		{Key: "acme", Worker: "w1", Run: 42, Weight: 1},
	}
	all := slices.Concat(acme, []queue.PoolPermit{{Key: "ajax", Worker: "w1", Run: 44, Weight: 1}})
	for _, c := range []struct {
		key   string
		limit int
		want  []queue.PoolPermit
	}{{"", 9, all}, {"acme", 9, acme}, {"acme", 2, acme[:2]}} {
		got, err := d.store.PoolPermits(t.Context(), "crm", c.key, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(queue.PoolPermit{}, "Since", "GrantedAt")); diff != "" {
			t.Errorf("key %q: - want, + got\n%s", c.key, diff)
		}
		for i, p := range got {
			if p.GrantedAt.IsZero() != (i > 0) || time.Since(p.Since) < time.Minute {
				t.Errorf("%+v", p)
			}
		}
	}
}

func TestRemovePool_RefusesAPoolInUse(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	for _, pool := range []string{"crm", "heavy"} {
		if _, err := d.store.SetPool(t.Context(), pool, queue.PoolLimits{Slots: 2, PerKey: true}); err != nil {
			t.Fatal(err)
		}
	}
	d.permits(t)
	d.exec(t, `SELECT oarlock.put_dag('{"name": "x", "steps": [{"id": "a", "action": "noop"}]}', 'x', 'x', '{}', pools => '{"heavy": {"weight": 2, "key": false}}')`)
	wantError(t, d.store.RemovePool(t.Context(), "crm"), nil, "OA013")
	wantError(t, d.store.RemovePool(t.Context(), "heavy"), nil, "OA013")
	_, err := d.store.SetPool(t.Context(), "heavy", queue.PoolLimits{Slots: 1, PerKey: true})
	wantError(t, err, nil, "OA013")
	d.exec(t, "DELETE FROM oarlock.fences") // the worker is lost, and its permits with it
	if p := d.pool(t, "crm"); p.Taken != 0 || p.Waiting != 0 {
		t.Errorf("%+v", p)
	}
	mustAll(t, d.store.RemovePool(t.Context(), "crm"))
	wantError(t, d.store.RemovePool(t.Context(), "crm"), queue.ErrNotFound, "")
}

func mustAll(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
