package queue_test

import (
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestPutDAG_StoresWhatEnqueueAndWorkersNeed(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	got := value[string](t, d, `SELECT concat_ws('; ', version, needs::text, max_slots, queue_timeout_ms, source_path IS NULL, hash = $1, source = $2)
		FROM oarlock.dag_versions`, parsed(t, reportDAG).Hash(), reportDAG)
	if want := "1; {action:approval,process}; 3; 3600000; t; t; t"; got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
	if again := d.put(t, "# another spelling"+reportDAG); again.IsNew || again.Version != 1 {
		t.Errorf("%+v, the content is the same", again)
	}
	changed, err := d.store.PutDAG(t.Context(), parsed(t, reportDAG+"priority: 3\n"), "", "/etc/report.yaml")
	if err != nil || !changed.IsNew || changed.Version != 2 || changed.ID == 0 {
		t.Errorf("%+v, %v", changed, err)
	}
}

func TestPutDAG_OfTheSameContentElsewhereRemembersThePlaceAndMakesNoVersion(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	places := []struct{ put, want string }{{"/a/report.yaml", "/a/report.yaml"}, {"/b/report.yaml", "/b/report.yaml"}, {"", "/b/report.yaml"}}
	for _, place := range places {
		put, err := d.store.PutDAG(t.Context(), parsed(t, reportDAG), reportDAG, place.put)
		if err != nil || put.IsNew || put.Version != 1 {
			t.Errorf("put from %q: %+v, %v", place.put, put, err)
		}
		if v, err := d.store.GetDAG(t.Context(), "report", 1); err != nil || v.SourcePath != place.want {
			t.Errorf("put from %q: its place is %q, want %q, %v", place.put, v.SourcePath, place.want, err)
		}
	}
}

func TestPutDAG_RefusesWhatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	_, err := d.store.PutDAG(t.Context(), parsed(t, "name: x\nsteps: [{id: a, action: river.job, with: {kind: x}}]\n"), "", "")
	wantError(t, err, nil, "OA009")
}

func TestPutDAG_TellsItsPools(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	spec := parsed(t, "name: x\nsteps: [{id: a, run: \"true\", pool: [{name: heavy, weight: 2}]}]\n")
	_, err := d.store.PutDAG(t.Context(), spec, "", "")
	wantError(t, err, nil, "OA013")
	d.exec(t, "SELECT oarlock.set_pool('heavy', slots => 2)")
	put, err := d.store.PutDAG(t.Context(), spec, "", "")
	if err != nil {
		t.Fatal(err)
	}
	var pools string
	if err := d.conn.QueryRow(t.Context(), "SELECT pools FROM oarlock.dag_versions WHERE dag_id = $1", put.ID).Scan(&pools); err != nil || pools != `{"heavy": {"key": false, "bare": true, "first": true, "weight": 2}}` {
		t.Errorf("it has the pools %s, %v", pools, err)
	}
}

func TestPutDAG_OutlivesALostReply(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	proxy, store := d.through(t)
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
	put, err := store.PutDAG(t.Context(), parsed(t, reportDAG+"priority: 3\n"), "", "")
	cut.MustFire(t)
	if err != nil || !put.IsNew || put.Version != 2 {
		t.Errorf("%+v, %v", put, err)
	}
	cut = proxy.Inject(netfault.Fault{When: netfault.OfType(netfault.Client, 'B'), Do: netfault.Cut})
	put, err = store.PutDAG(t.Context(), parsed(t, reportDAG+"priority: 4\n"), "", "")
	cut.MustFire(t)
	if err != nil || !put.IsNew || put.Version != 3 {
		t.Errorf("%+v, %v", put, err)
	}
}

func TestSetDAG_PausesResumesAndRemoves(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	yes, no := true, false
	for _, c := range []struct {
		change queue.DAGChange
		want   string
	}{
		{queue.DAGChange{Name: "report", Paused: &yes}, "paused"},
		{queue.DAGChange{Name: "report", Removed: &yes}, "paused removed"},
		{queue.DAGChange{Name: "report", Paused: &no}, "removed"},
		{queue.DAGChange{Name: "report", Removed: &no}, ""},
	} {
		if err := d.store.SetDAG(t.Context(), c.change); err != nil {
			t.Fatal(err)
		}
		got := value[string](t, d, `SELECT concat_ws(' ', CASE WHEN paused_by IS NOT NULL THEN 'paused' END, CASE WHEN removed_at IS NOT NULL THEN 'removed' END) FROM oarlock.dags`)
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	wantError(t, d.store.SetDAG(t.Context(), queue.DAGChange{Name: "reprot", Paused: &yes}), queue.ErrNotFound, "OA001")
}
