package web

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

const reportNext = `
name: report
params: [{name: day, type: string, default: "<b>today</b>", pattern: "^.*$", description: "of what <i>day</i>"}]
queue: default
steps:
  - {id: load, run: "false # <script>"}
  - {id: check, run: "true", depends: [load]}
`

func (b *testBundle) putReport(t *testing.T, source string) {
	t.Helper()
	spec, err := dagspec.Parse("dag.yaml", []byte(source))
	if err == nil {
		_, err = openStore(t, b.db.URL).PutDAG(t.Context(), spec, source, "dags/report.yaml")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDAGs_ListStripsAndStates(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.putReport(t, "name: other\nsteps: [{id: a, run: \"true\"}]\n")
	for range 2 {
		b.enqueue(t, queue.Request{})
	}
	b.fail(t, 2, "boom")
	page := b.page(t, "/dags", http.StatusOK)
	wantTexts(t, page, "other 1 none yet", "report 1", "1 of 2 failed", "10s", "#2 failed, 10s", "default")
	wantMarkup(t, page, `<a href="/runs/2" tabindex="-1">`, `class="b-bad"`)
	if page := b.page(t, "/dags?q=OTH", http.StatusOK); strings.Contains(page, "report") {
		t.Error("q finds what is not called so")
	}
	wantTexts(t, b.page(t, "/dags?q=none", http.StatusOK), "No DAG has this name.")
	for path, want := range map[string]string{"/dags/report/pause": "paused by", "/dags/report/resume": "Pause"} {
		if w := b.post(t, path); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/dags/report" {
			t.Fatalf("%s: %d %s", path, w.Code, w.Header().Get("Location"))
		}
		wantTexts(t, b.page(t, "/dags/report", http.StatusOK), want)
		if path == "/dags/report/pause" {
			wantTexts(t, b.page(t, "/dags", http.StatusOK), "paused")
		}
	}
}

func TestDAGs_ComeInPages(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_read", Options{})
	for i := range 102 {
		b.putReport(t, fmt.Sprintf("name: d%03d\nsteps: [{id: a, run: \"true\"}]\n", i))
	}
	b.exec(t, "UPDATE oarlock.dags SET removed_at = now() WHERE name IN ('d000', 'd050', 'd099')")
	listed := regexp.MustCompile(`data-open href="/dags/([^"]+)"`)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	read := func(path string) (names []string) {
		for pages := 0; path != ""; pages++ {
			if pages > 2 {
				t.Fatalf("the list does not end: %s", path)
			}
			page := b.page(t, path, http.StatusOK)
			found := listed.FindAllStringSubmatch(page, -1)
			if len(found) > dagsShown {
				t.Errorf("%s shows %d DAGs", path, len(found))
			}
			for _, m := range found {
				names = append(names, m[1])
			}
			path = ""
			if m := next.FindStringSubmatch(page); m != nil {
				path = html.UnescapeString(m[1])
			}
		}
		return names
	}
	var want []string
	for i := range 102 {
		if i != 0 && i != 50 && i != 99 {
			want = append(want, fmt.Sprintf("d%03d", i))
		}
	}
	want = append(want, "report", "d000", "d050", "d099")
	if diff := cmp.Diff(want, read("/dags")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"d100", "d101", "report", "d000", "d050", "d099"}, read("/dags?after=d099")); diff != "" {
		t.Errorf("after a DAG that was removed meanwhile: %s", diff)
	}
	if diff := cmp.Diff([]string{"d050", "d099"}, read("/dags?after=d000&removed=1&q=D0")); diff != "" {
		t.Error(diff)
	}
}

func TestDAG_OffersNothingOnceRemoved(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	b.exec(t, "UPDATE oarlock.dags SET removed_at = now()")
	page := b.page(t, "/dags/report", http.StatusOK)
	wantTexts(t, page, "removed", "No run yet.")
	if strings.Contains(page, `method="post"`) || strings.Contains(page, "oarlock enqueue") {
		t.Error("a removed DAG offers what it refuses")
	}
}

func TestDAG_NamesItsFirstCommand(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_read", Options{})
	page := b.page(t, "/dags/report", http.StatusOK)
	wantMarkup(t, page, `<code>oarlock enqueue report</code><button class="copy`, `data-copy="oarlock enqueue report"`)
}

func TestLinesOf_KeepsContentLikeHeaders(t *testing.T) {
	t.Parallel()
	unified := diff.Diff("version 1", []byte("-- x\n-- y\nb\n"), "version 2", []byte("++ z\nb\n"))
	want := []diffLine{{"d-at", "@@ -1,3 +1,2 @@"}, {"d-del", "--- x"}, {"d-del", "--- y"}, {"d-add", "+++ z"}, {"", " b"}}
	if diff := cmp.Diff(want, linesOf(unified)); diff != "" {
		t.Error(diff)
	}
}

func TestDAG_ShowsVersionsAndWhatDiffers(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_read", Options{})
	b.putReport(t, reportNext)
	page := b.page(t, "/dags/report?step=check", http.StatusOK)
	wantTexts(t, page, "report version 2", "day string", `"<b>today</b>"`, "of what <i>day</i>", "like ^.*$", "from dags/report.yaml", `"depends": [`, "No run yet.")
	if strings.Contains(page, `method="post"`) {
		t.Error("a reader is offered an action")
	}
	page = b.page(t, "/dags/report/versions/2", http.StatusOK)
	wantTexts(t, page, "the current one", "step confirm is gone", "step check is new", "step load: run", "param day: ", "false # <script>", "oarlock dag show report --version 2")
	page = b.page(t, "/dags/report/diff/1..2", http.StatusOK)
	wantTexts(t, page, `- - {id: load, run: "true"}`, `+ - {id: load, run: "false # <script>"}`, "step confirm is gone")
	wantMarkup(t, page, `<span class="d-add">`, `<span class="d-del">`)
	wantTexts(t, b.page(t, "/dags/report/diff/2..2", http.StatusOK), "No step, param or key differs.")
	for _, path := range []string{"/dags/nothing", "/dags/report/versions/3", "/dags/report/diff/1..9"} {
		b.page(t, path, http.StatusNotFound)
	}
	for _, path := range []string{"/dags/report/versions/x", "/dags/report/diff/1-2", "/dags/report/diff/1..2junk", "/dags/report/diff/0..1"} {
		b.page(t, path, http.StatusBadRequest)
	}
}

func TestDAGs_AreForReaders(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_submit", Options{})
	b.page(t, "/dags", http.StatusForbidden)
	b.page(t, "/dags/report", http.StatusForbidden)
	if w := b.post(t, "/dags/report/pause"); w.Code != http.StatusForbidden {
		t.Errorf("a submitter pauses a DAG: %d", w.Code)
	}
	const slow = "name: slow\nqueue: slow\nsteps: [{id: a, run: \"true\"}]\n"
	b.putReport(t, slow)
	page := b.page(t, runPath(b.enqueue(t, queue.Request{DAG: "slow"})), http.StatusOK)
	if strings.Contains(page, `href="/dags`) || strings.Contains(page, `href="/queues`) {
		t.Error("a submitter is led to pages that refuse it")
	}
	wantTexts(t, page, "queue slow")
	reads := setup(t, "oarlock_admin", Options{ReadOnly: true})
	reads.putReport(t, slow)
	wantMarkup(t, reads.page(t, runPath(reads.enqueue(t, queue.Request{DAG: "slow"})), http.StatusOK), `<a href="/queues/slow">slow</a>`)
}

func TestStrip_CountsWhatItDraws(t *testing.T) {
	t.Parallel()
	runs := []queue.StripRun{
		{ID: 1, State: "succeeded", StartedAt: time.Unix(1, 0), Waited: time.Second, EndedAt: time.Unix(5, 0)},
		{ID: 2, State: "failed", StartedAt: time.Unix(1, 0), Waited: 3 * time.Second, EndedAt: time.Unix(3, 0)},
		{ID: 3, State: "canceled", StartedAt: time.Unix(1, 0), EndedAt: time.Unix(3601, 0)},
		{ID: 4, State: "running", StartedAt: time.Unix(1, 0)},
		{ID: 5, State: "queued"},
	}
	got := (&server{}).stripOf(runs)
	got.Bars = ""
	want := strip{
		Runs: 5, Failed: 1, Median: 2 * time.Second, P95: 4 * time.Second, Longest: 4 * time.Second, WaitMedian: 0, WaitP95: 3 * time.Second,
		Ended: 2, Started: 4, Active: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A page has as many DAGs, and as many bars of each, as a browser shows at once.
func TestDAGs_PageIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_read", Options{})
	for i := range dagsShown + 1 {
		b.putReport(t, fmt.Sprintf("name: dag-%03d\nsteps: [{id: a, run: \"true\"}]\n", i))
	}
	b.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, started_at, finished_at)
		SELECT v.dag_id, 1, v.lane_id, 'failed', now(), now(), 'sql', 0, 'x', now() - interval '1 h', now() FROM oarlock.dag_versions v, generate_series(1, $1::int)`, 2*listStrip)
	page := b.page(t, "/dags", http.StatusOK)
	if n := len(elementText.FindAllString(page, -1)); n > maxElements || len(page) > maxPage {
		t.Errorf("%d elements and %d KiB, at most %d and %d", n, len(page)>>10, maxElements, maxPage>>10)
	}
	if next := fmt.Sprintf("/dags?after=dag-%03d&amp;q=", dagsShown-1); !strings.Contains(page, next) {
		t.Errorf("the page leads to no %s", next)
	}
}
