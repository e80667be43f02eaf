package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// ended makes a run like another, in a version of the DAG, that ended some minutes ago.
func (b *testBundle) ended(t *testing.T, like queue.RunID, version, minutes int, state, reason string) (id queue.RunID) {
	t.Helper()
	if err := b.conn.QueryRow(t.Context(), `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, reason, params, labels, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
		SELECT r.dag_id, $2, r.lane_id, $4, $5, r.params, r.labels, now() - interval '1 day', now(), 'sql', 0, r.submitted_by, now() - interval '1 day', now() - $3 * interval '1 min'
		  FROM oarlock.runs r WHERE r.run_id = $1 RETURNING run_id`, like, version, minutes, state, reason).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRun_SaysHowManyEndedSo(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	const reason = "step roll: exit 1"
	run := b.night(t)
	path := runPath(run)
	wantTexts(t, b.page(t, path, http.StatusOK), "No other of the runs of this DAG has ended.")
	b.put(t, strings.Replace(nightDAG, "limit: 2", "limit: 3", 1))
	b.ended(t, run, 1, 90, "failed", "step each failed: exit 2")
	wantTexts(t, b.page(t, path, http.StatusOK), "The only one of the last 2 runs of this DAG that ended in this way.")
	good := b.ended(t, run, 1, 80, "succeeded", "")
	first := b.ended(t, run, 2, 70, "failed", reason)
	page := b.page(t, path, http.StatusOK)
	wantTexts(t, page, fmt.Sprintf("2 of the last 4 runs of this DAG ended in this way, first #%d , when version 2 began . Last good before it: #%d , compare .", first, good))
	wantMarkup(t, page, `<a href="/dags/night/diff/1..2">`, fmt.Sprintf(`<a href="/runs/%d">`, first), `<a href="`+path+`/compare">`)
	wantTexts(t, b.page(t, runPath(first), http.StatusOK), "ended in this way, first this one, when version 2 began")
	if page := b.page(t, runPath(good), http.StatusOK); strings.Contains(page, "ended in this way") {
		t.Error("a run that succeeded is like others")
	}
}

func TestAlikeOf_SaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]queue.FailureHistory{
		"": {LastGood: 3},
		"None of the last 50 runs ended in this way": {Ended: 50, LastGood: 3},
		"All of the last 50 runs ended in this way":  {Ended: 50, Alike: 50, First: 7, FirstVersion: 2, LastGood: 3},
		"1 of the last 50 runs ended in this way":    {Ended: 50, Alike: 1, First: 7, FirstVersion: 2, LastGood: 3},
		"1 of the last 1 runs ended in this way":     {Ended: 1, Alike: 1, First: 7, FirstVersion: 2, LastGood: 3},
	} {
		a := alikeOf(8, &h, "runs")
		if a.Count != want || a.Good != 3 || a.Began != 0 {
			t.Errorf("%+v: %+v", h, a)
		}
	}
	if a := alikeOf(8, &queue.FailureHistory{Ended: 9, Alike: 2, First: 7, FirstVersion: 2, VersionBefore: 3}, "runs"); a.Began != 0 || a.First != 7 {
		t.Errorf("an older version did not begin: %+v", a)
	}
}

func TestRun_SaysToSubmittersWhatTheyMaySee(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_submit", Options{})
	run := b.enqueue(t, queue.Request{})
	b.fail(t, run, "step load failed: exit 1")
	mine := b.ended(t, run, 1, 5, "failed", "step load failed: exit 1")
	b.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, reason, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
		SELECT dag_id, version, lane_id, CASE WHEN n = 1 THEN 'succeeded' ELSE 'failed' END, reason, now(), now(), 'sql', 0, 'x', now(), now() - n * interval '1 h'
		  FROM oarlock.runs, generate_series(1, 3) n WHERE run_id = $1`, run)
	page := b.page(t, runPath(run), http.StatusOK)
	wantTexts(t, page, "All of the last 2 runs of this DAG that you asked for ended in this way.")
	if strings.Contains(page, "Last good") || mine == 0 {
		t.Error("a submitter is told of a run of somebody else")
	}
}
