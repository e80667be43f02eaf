package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

const hostileText = `</td><script>alert("x")</script>`

// pair makes a run that succeeded in version 1, and then a run that failed in version 2, which adds one step and drops another.
func (b *testBundle) pair(t *testing.T) (good, bad queue.RunID) {
	t.Helper()
	const dag = "name: pair\nparams: [{name: day, type: string}]\nsteps:\n  - {id: scan, run: \"true\"}\n  - {id: load, run: \"true\", depends: [scan]}\n  - {id: %s, run: \"true\", depends: [load]}\n"
	b.put(t, fmt.Sprintf(dag, "report"))
	good = b.enqueue(t, queue.Request{DAG: "pair", Params: map[string]any{"day": "2026-11-26"}, Labels: map[string]string{"team": "data"}})
	b.put(t, fmt.Sprintf(dag, "publish"))
	bad = b.enqueue(t, queue.Request{DAG: "pair", Params: map[string]any{"day": hostileText}, Labels: map[string]string{"team": hostileText}})
	const task = `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, reason, outputs, worker, log_day, started_at, attempt_at, finished_at)
		SELECT $1, $2, $3, $4, 1, 1, 1, '', $5, 'w-1', current_date, f - $6 * interval '1 s', f - $6 * interval '1 s', f
		  FROM (SELECT CASE WHEN $4 > 0 THEN now() END AS f) x`
	b.exec(t, task, good, 0, "succeeded", 1, `{"rows": 12345678901234567890, "kind": "a"}`, 2)
	b.exec(t, task, good, 1, "succeeded", 1, nil, 3)
	b.exec(t, task, good, 2, "succeeded", 1, nil, 1)
	b.exec(t, task, bad, 0, "succeeded", 1, `{"rows": 12345678901234567891, "kind": "a"}`, 8)
	b.exec(t, task, bad, 1, "failed", 1, nil, 1)
	b.exec(t, task, bad, 2, "upstream_failed", 0, nil, 0)
	b.exec(t, "UPDATE oarlock.runs SET state = 'succeeded', started_at = now() - interval '7 s', finished_at = now() - interval '1 s', queue_deadline = NULL WHERE run_id = $1", good)
	b.fail(t, bad, "step load failed: "+hostileText)
	return good, bad
}

func TestCompare_SaysWhatDiffers(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	good, bad := b.pair(t)
	page := b.page(t, comparePath(bad, good), http.StatusOK)
	wantTexts(t, page, fmt.Sprintf("pair #%d beside #%d", bad, good), "state succeeded failed", "version 1 2 what changed", "took 6.0s 10s +4.0s",
		"param day \"2026-11-26\" \""+strings.ReplaceAll(hostileText, `"`, `\"`)+"\"", " 2.0s 8.0s +6.0s", "load was succeeded, is failed", " 3.0s 1.0s −2.0s",
		fmt.Sprintf("publish not in #%d", good), fmt.Sprintf("report only in #%d", good), "scan.rows 12345678901234567890 12345678901234567891",
		"The same: queue, worker, asked by, waited, all other params.", fmt.Sprintf("oarlock status %d", bad), fmt.Sprintf("oarlock status %d", good))
	wantMarkup(t, page, `href="/dags/pair/diff/1..2"`, `<rect class="b-good" x="0" y="18" width="100.00%"`, `<rect class="b-good b-old" x="0" y="7" width="25.00%"`,
		fmt.Sprintf(`href="/runs/%d?step=load"`, bad), fmt.Sprintf(`href="/runs/%d?step=load"`, good))
	for _, refused := range []string{"<script>alert", "style=", "scan.kind"} {
		if strings.Contains(page, refused) {
			t.Errorf("%s stands in the page:\n%s", refused, page)
		}
	}
	wantTexts(t, b.page(t, comparePath(good, bad), http.StatusOK), fmt.Sprintf("pair #%d beside #%d", good, bad), "took 10s 6.0s −4.0s", fmt.Sprintf("publish only in #%d", bad))
	open := b.enqueue(t, queue.Request{DAG: "pair"})
	wantTexts(t, b.page(t, comparePath(open, good), http.StatusOK), "Outputs are compared once both runs have ended.", "took 6.0s –")
}

func TestCompare_FindsTheLastGood(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{Base: "/x"})
	good, bad := b.pair(t)
	last := b.get(t, "/x"+runPath(bad)+"/compare")
	if to := last.Header().Get("Location"); last.Code != http.StatusSeeOther || to != "/x"+comparePath(bad, good) {
		t.Errorf("%d to %s", last.Code, to)
	}
	wantTexts(t, b.page(t, "/x"+runPath(good)+"/compare", http.StatusNotFound), fmt.Sprintf("Of the last 200 runs of the DAG that ended before run %d, none succeeded", good))
	b.page(t, "/x/runs/777/compare", http.StatusNotFound)
	other := b.enqueue(t, queue.Request{})
	for path, texts := range map[string]struct {
		text   string
		status int
	}{
		comparePath(bad, other):                {fmt.Sprintf("Run %d is of DAG pair, and run %d of DAG report: only runs of one DAG can be compared.", bad, other), http.StatusBadRequest},
		comparePath(bad, bad):                  {"A run does not differ from itself.", http.StatusBadRequest},
		comparePath(bad, 777):                  {"Run 777 does not exist, or you lack the right to see it.", http.StatusNotFound},
		comparePath(777, bad):                  {"Run 777 does not exist, or you lack the right to see it.", http.StatusNotFound},
		runPath(bad) + "/compare/x":            {"This run does not exist.", http.StatusNotFound},
		runPath(bad) + "/compare/0":            {"This run does not exist.", http.StatusNotFound},
		"/runs/99999999999999999999/compare":   {"This run does not exist.", http.StatusNotFound},
		runPath(bad) + "/compare/" + "9999999": {"Run 9999999 does not exist", http.StatusNotFound},
	} {
		wantTexts(t, b.page(t, "/x"+path, texts.status), texts.text)
	}
}

func TestCompare_IsForThoseWhoMaySeeBoth(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_submit", Options{})
	mine := b.enqueue(t, queue.Request{})
	b.fail(t, mine, "step load failed: exit 1")
	before := b.ended(t, mine, 1, 5, "succeeded", "")
	b.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
		SELECT dag_id, version, lane_id, 'succeeded', now(), now(), 'sql', 0, 'x', now(), now() - interval '1 min' FROM oarlock.runs WHERE run_id = $1`, mine)
	if to := b.get(t, runPath(mine)+"/compare").Header().Get("Location"); to != comparePath(mine, before) {
		t.Errorf("it leads to %q", to)
	}
	page := b.page(t, comparePath(mine, before), http.StatusOK)
	wantTexts(t, page, "state succeeded failed", "load")
	if strings.Contains(page, "/dags/") {
		t.Error("it leads to a DAG that the login may not read")
	}
	wantTexts(t, b.page(t, comparePath(mine, before+1), http.StatusNotFound), fmt.Sprintf("Run %d does not exist, or you lack the right to see it.", before+1))
}

func TestCompare_IsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	run := b.broad(t)
	other := b.ended(t, run, 1, 90, "succeeded", "")
	sent := b.count(t)
	page := b.page(t, comparePath(run, other), http.StatusOK)
	if asked := sent.Take(); len(asked) > 6 {
		t.Errorf("%d statements: %s", len(asked), strings.Join(asked, ", "))
	}
	wantTexts(t, page, "400 more steps, which differ less.", "b10 was")
	if elements := len(elementText.FindAllString(page, -1)); elements > maxElements || len(page) > maxPage {
		t.Errorf("%d elements and %d KiB", elements, len(page)>>10)
	}
}
