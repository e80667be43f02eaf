package queue_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/queue"
)

const exitReason = "step scan failed: exit 1"

// endedRun makes a run of a version that ended so many minutes ago, and returns its number.
func (d *clientBundle) endedRun(t *testing.T, like queue.RunID, version, minutes int, state, reason, by string) queue.RunID {
	t.Helper()
	return value[queue.RunID](t, d, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, reason, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
		SELECT r.dag_id, $2, r.lane_id, $4, $5, now(), now(), 'sql', 0, $6, now() - $3 * interval '1 min', now() - $3 * interval '1 min'
		  FROM oarlock.runs r WHERE r.run_id = $1 RETURNING run_id`, like, version, minutes, state, reason, by)
}

func (d *clientBundle) failureHistory(t *testing.T, store *queue.Store, run queue.RunID) queue.FailureHistory {
	t.Helper()
	h, err := store.FailureHistory(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return *h
}

func TestFailureHistory_FindsWhereItBegan(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.put(t, pagesDAG)
	model := pagesRun(t, d, d.store) // goes on
	want := func(name string, run queue.RunID, want queue.FailureHistory) {
		t.Helper()
		if diff := cmp.Diff(want, d.failureHistory(t, d.store, run)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	want("of a run that goes on, before any ended", model, queue.FailureHistory{})
	first := d.endedRun(t, model, 7, 60, "failed", exitReason, "x")
	want("alone", first, queue.FailureHistory{Ended: 1, Alike: 1, First: first, FirstVersion: 7})
	d.endedRun(t, model, 1, 90, "succeeded", "", "x")
	good := d.endedRun(t, model, 1, 80, "succeeded", "", "x")
	d.endedRun(t, model, 1, 70, "failed", "step scan failed: exit 2", "x")
	want("another reason before", first, queue.FailureHistory{Ended: 4, Alike: 1, First: first, FirstVersion: 7, VersionBefore: 1, LastGood: good})
	last := d.endedRun(t, model, 8, 10, "failed", exitReason, "x")
	d.endedRun(t, model, 8, 5, "canceled", exitReason, "x")
	later := d.endedRun(t, model, 8, 1, "succeeded", "", "x")
	for name, run := range map[string]queue.RunID{"the first": first, "the last": last} {
		want(name, run, queue.FailureHistory{Ended: 7, Alike: 2, First: first, FirstVersion: 7, VersionBefore: 1, LastGood: good})
	}
	want("one that succeeded", good, queue.FailureHistory{Ended: 7, Alike: 3, First: good - 1, FirstVersion: 1, LastGood: good - 1})
	if h := d.failureHistory(t, d.store, model); h.LastGood != later || h.Alike != 0 {
		t.Errorf("of a run that goes on: %+v", h)
	}
}

func TestFailureHistory_LooksNoFurther(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	d.put(t, pagesDAG)
	ana := d.open(t, d.user(t, "ana", "oarlock_submit"))
	model := pagesRun(t, d, ana)
	mine := value[string](t, d, "SELECT submitted_by FROM oarlock.runs WHERE run_id = $1", model)
	good := d.endedRun(t, model, 1, 500, "succeeded", "", mine)
	old := d.endedRun(t, model, 1, 400, "failed", "step scan failed: exit 3", mine)
	d.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, reason, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
		SELECT r.dag_id, 1, r.lane_id, 'failed', $2, now(), now(), 'sql', 0, CASE WHEN n <= 60 THEN 'x' ELSE $3 END, now(), now() - n * interval '1 min'
		  FROM oarlock.runs r, generate_series(1, 63) n WHERE r.run_id = $1`, model, exitReason, mine)
	newest := value[queue.RunID](t, d, "SELECT run_id FROM oarlock.runs WHERE submitted_by = $1 AND reason = $2 ORDER BY finished_at DESC LIMIT 1", mine, exitReason)
	h := d.failureHistory(t, d.store, newest)
	if h.Ended != 50 || h.Alike != 50 || h.First == 0 || h.VersionBefore != 0 || h.LastGood != good {
		t.Errorf("all of 50: %+v", h)
	}
	if h := d.failureHistory(t, d.store, old); h.Ended != 50 || h.Alike != 0 || h.First != 0 {
		t.Errorf("none of the newest: %+v", h)
	}
	h = d.failureHistory(t, ana, newest)
	if got, want := fmt.Sprint(h.Ended, h.Alike, h.VersionBefore, h.LastGood), fmt.Sprint(5, 3, 1, good); got != want {
		t.Errorf("a submitter sees %s, want %s", got, want)
	}
	canceled := func(minutes int) {
		t.Helper()
		d.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
			SELECT r.dag_id, 1, r.lane_id, 'canceled', now(), now(), 'sql', 0, 'x', now(), now() - $2 * interval '1 min'
			  FROM oarlock.runs r, generate_series(1, 200) n WHERE r.run_id = $1`, model, minutes)
	}
	canceled(0)
	if h := d.failureHistory(t, ana, newest); h.Ended != 0 || h.LastGood != good {
		t.Errorf("behind 200 of others: %+v", h)
	}
	canceled(450)
	if h := d.failureHistory(t, d.store, newest); h.LastGood != 0 {
		t.Errorf("behind 200 that ended before: %+v", h)
	}
}
