package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestRuns_ShowRunsNewestFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	wantTexts(t, b.page(t, "/runs", http.StatusOK), "There are no runs yet.", "oarlock enqueue DAG")
	one := b.enqueue(t, queue.Request{Params: map[string]any{"day": "2026-11-22"}})
	two := b.enqueue(t, queue.Request{Labels: map[string]string{"team": "data"}})
	b.fail(t, one, "load: exit 3")
	page := b.page(t, "/runs", http.StatusOK)
	wantTexts(t, page, "✗ failed report #1 day=2026-11-22 load: exit 3 6 of 6", "○ queued report #2 no worker is live", "10s")
	if strings.Index(page, runPath(two)) > strings.Index(page, runPath(one)) {
		t.Error("the older run stands first")
	}
	for _, want := range []string{`<rect class="b-good" x="0.00%" width="50.00%" height="8"/>`, `<rect class="b-bad" x="50.00%" width="50.00%" height="8"/>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the bar has no %s", want)
		}
	}
}

func TestRuns_ArePaged(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	for range 55 {
		b.enqueue(t, queue.Request{})
	}
	first := b.page(t, "/runs", http.StatusOK)
	wantMarkup(t, first, `href="/runs?before=6" rel="next"`)
	second := b.page(t, "/runs?before=6", http.StatusOK)
	wantTexts(t, second, "#5", "#1", "5 runs", "← Newest", "oarlock list --before 6")
	if strings.Contains(second, `rel="next"`) || strings.Contains(first, "Newest") {
		t.Error("a page leads where there is nothing")
	}
	wantTexts(t, b.page(t, "/runs?before=1", http.StatusOK), "No older run matches.")
}

// A page examines a limited number of runs for a label, and links to the older ones.
func TestRuns_SayWhereALookEnded(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_read", Options{})
	b.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, finished_at, labels)
		SELECT dag_id, version, lane_id, 'succeeded', now(), now(), 'sql', 0, 'x', now(), CASE i WHEN 1 THEN '{"team": "data"}'::jsonb ELSE '{}' END
		  FROM oarlock.dag_versions, generate_series(1, $1::int) i`, listLook+1)
	page := b.page(t, "/runs?label=team%3Ddata", http.StatusOK)
	wantTexts(t, page, "None of the 50000 runs that were looked through matches. Older runs can match.", "Older →")
	wantMarkup(t, page, `href="/runs?before=2&amp;label=team%3Ddata" rel="next"`)
	page = b.page(t, "/runs?before=2&label=team%3Ddata", http.StatusOK)
	wantTexts(t, page, "#1", "1 run")
	if strings.Contains(page, `rel="next"`) {
		t.Error("the last page leads where there is nothing")
	}
}

func TestRuns_SayWhyThereAreNone(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	for path, want := range map[string]string{
		"/runs?dag=reprot":   "There is no DAG reprot, or you lack the right to see it. oarlock dag list",
		"/runs?dag=report":   "No run matches. oarlock list",
		"/runs?state=failed": "No run matches. oarlock list",
	} {
		wantTexts(t, b.page(t, path, http.StatusOK), want)
	}
}

func TestRuns_ChipsAddAndTakeAway(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	page := b.page(t, "/runs?state=failed&dag=report", http.StatusOK)
	wantMarkup(t, page, `<a class="chip failed" href="/runs?dag=report" aria-current="true">`, `<a class="chip running" href="/runs?dag=report&amp;state=failed&amp;state=running">`,
		`<input type="hidden" name="state" value="failed">`, `value="dag:report"`)
	wantTexts(t, page, "oarlock list --state failed --dag report")
}

// TestPages_EscapeWhatPeopleWrote puts markup and characters that change the direction of text into every field of a run.
func TestPages_EscapeWhatPeopleWrote(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{Name: `<db onload="x">`, Version: "<v>"})
	hostile := "<img src=x onerror=alert(1)>\"'`{{.}}\u202e\x1b[2J</td></script>"
	run := b.enqueue(t, queue.Request{Params: map[string]any{"day": hostile}, Labels: map[string]string{"team": hostile}})
	b.exec(t, `UPDATE oarlock.runs SET submitted_by = $2 WHERE run_id = $1`, run, hostile)
	b.fail(t, run, hostile)
	b.ask(t, b.enqueue(t, queue.Request{}))
	b.exec(t, `UPDATE oarlock.approvals_open SET prompt = $1, approvers = ARRAY[$1]`, hostile)
	for _, path := range []string{"/runs", "/approvals", "/runs?dag=" + url.QueryEscape(hostile), "/runs?q=" + url.QueryEscape(`color:`+hostile)} {
		w := b.get(t, path)
		page := w.Body.String()
		if strings.Contains(page, "<img") || strings.Contains(page, "<db") || strings.Contains(page, "<v>") || strings.ContainsAny(page, "\u202e\x1b") {
			t.Errorf("%s: %d\n%s", path, w.Code, page)
		}
		wantMarkup(t, page, "&lt;img src=x onerror=alert(1)&gt;")
	}
}

func TestPages_ShowASubmitterItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_submit", Options{})
	b.enqueue(t, queue.Request{})
	owner := openStore(t, b.db.URL)
	if _, err := owner.Enqueue(t.Context(), queue.Request{DAG: "report"}); err != nil {
		t.Fatal(err)
	}
	page := b.page(t, "/runs", http.StatusOK)
	wantTexts(t, page, "#1", "1 run")
	if plain := plainText(page); strings.Contains(plain, "#2") || strings.Contains(plain, "Slots busy") {
		t.Errorf("it shows what is not the submitter's:\n%s", plain)
	}
	b.page(t, "/approvals", http.StatusOK)
	b.page(t, "/readyz", http.StatusOK)
}

func TestErrors_HavePages(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	wantTexts(t, b.page(t, "/nothing", http.StatusNotFound), "Not Found", "This page does not exist.")
	b.exec(t, `DROP SCHEMA oarlock CASCADE`)
	page := b.page(t, "/approvals", http.StatusServiceUnavailable)
	wantTexts(t, page, "The database has no Oarlock schema, or its schema has another version.", "oarlock migrate status", "Request")
	if log := b.logged.String(); !strings.Contains(log, "3F000") || strings.Contains(page, "3F000") {
		t.Errorf("the log says %q", log)
	}
	if w := b.get(t, "/readyz"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("it is ready: %s", w.Body)
	}
	b.page(t, "/livez", http.StatusOK)
	for err, status := range map[error]int{
		queue.ErrNotFound: http.StatusNotFound, queue.ErrClosed: http.StatusServiceUnavailable, &queue.Error{Code: "42501", Message: "permission denied for table runs"}: http.StatusForbidden,
		context.DeadlineExceeded: http.StatusServiceUnavailable, errors.New("other"): http.StatusInternalServerError,
	} {
		if got := problemOf(fmt.Errorf("list runs: %w", err)); got.status != status || got.message == "" || got.hint == "" {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

func TestGlance_IsTakenOnceForMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		c := cached[int]{interval: lookInterval, timeout: lookTimeout, read: func(context.Context) (int, error) {
			reads++
			<-time.After(lookTimeout / 2)
			return reads, nil
		}}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if n, err := c.get(t.Context()); n != 1 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			})
		}
		all.Wait()
		<-time.After(lookInterval)
		if n, err := c.get(t.Context()); n != 2 || err != nil {
			t.Errorf("later: %d, %v", n, err)
		}
	})
}
