package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestRunLogs_ShowWhatFailedFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	run := b.night(t)
	path := runPath(run) + "/log"
	wantMarkup(t, b.page(t, runPath(run), http.StatusOK), `href="`+path+`"`)
	page := b.page(t, path, http.StatusOK)
	wantTexts(t, page, "each/c/d exit 3 The task wrote nothing.", "roll attempt 2, exit 1 one two green ERROR: <i>relation</i> hint", "each/a", "oarlock logs 1 --tail 20")
	wantMarkup(t, page, `<span class="a32">green</span>`, `<span class="err">`, `href="/runs/1/steps/each/log?item=c%2Fd"`)
	if strings.Index(page, "each/a<") < strings.Index(page, ">roll<") || strings.Contains(page, ">late<") || strings.Contains(page, ">each<") || strings.Contains(page, "<i>relation") {
		t.Errorf("it has other logs, or in another order:\n%s", plainText(page))
	}
	b.page(t, "/runs/777/log", http.StatusNotFound)
	wantTexts(t, b.page(t, runPath(b.enqueue(t, queue.Request{}))+"/log", http.StatusOK), "No task has a log yet.")
}

func TestRunLogs_AreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	for dag, run := range map[string]queue.RunID{"gallery": b.gallery(t, 2_000), "broad": b.broad(t)} {
		sent := b.count(t)
		page := b.page(t, runPath(run)+"/log", http.StatusOK)
		if asked := sent.Take(); len(asked) > 5 {
			t.Errorf("%s: %d statements: %s", dag, len(asked), strings.Join(asked, ", "))
		}
		if n := strings.Count(page, "<h2 data-row>"); n != queue.MaxLogTails {
			t.Errorf("%s: %d logs", dag, n)
		}
		wantTexts(t, page, "All tasks")
		if dag == "gallery" {
			wantTexts(t, page, "part-1 exit status 1 , its last lines")
			if n := strings.Count(page, ">a line of a log"); n != tailLines {
				t.Errorf("%d lines of the one task that wrote any", n)
			}
		}
	}
}

func TestRunLogs_AreForThoseWhoMaySeeTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_submit", Options{})
	mine := b.enqueue(t, queue.Request{})
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, log_day) VALUES ($1, 0, 'running', 1, 1, 1, 1, now(), current_date)`, mine)
	wantTexts(t, b.page(t, fmt.Sprintf("/runs/%d/log", mine), http.StatusOK), "load The task wrote nothing yet.")
	other := b.ended(t, mine, 1, 5, "failed", "")
	b.exec(t, "INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, ready_at, logical_at, trigger, root_id, submitted_by) SELECT dag_id, version, lane_id, 'queued', now(), now(), now(), 'sql', 0, 'x' FROM oarlock.runs WHERE run_id = $1", mine)
	b.page(t, fmt.Sprintf("/runs/%d/log", other+1), http.StatusNotFound)
}
