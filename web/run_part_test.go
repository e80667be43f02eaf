package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// foreign makes a run of another submitter, with a param that the login must not see.
func (b *testBundle) foreign(t *testing.T) queue.RunID {
	t.Helper()
	id, err := openStore(t, b.db.URL).Enqueue(t.Context(), queue.Request{DAG: "report", Params: map[string]any{"day": "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// settle decides the approval that ask made.
func (b *testBundle) settle(t *testing.T, run queue.RunID, reason string) {
	t.Helper()
	b.exec(t, "DELETE FROM oarlock.approvals_open WHERE run_id = $1", run)
	b.exec(t, `UPDATE oarlock.tasks SET state = 'succeeded', reason = $2, finished_at = now(), outputs = '{"ticket": "secret"}' WHERE run_id = $1`, run, reason)
}

func TestRunPart_LeadsAnApproverToItsDecision(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_approve", Options{})
	run, other := b.foreign(t), b.foreign(t)
	b.ask(t, run)
	b.page(t, runPath(other), http.StatusNotFound)
	b.page(t, runPath(other)+"/approve?step=confirm", http.StatusNotFound)
	page := b.page(t, runPath(run), http.StatusOK)
	wantTexts(t, page, "report #1", "load · pending", "confirm ◷ waiting", "Release it? See <b>ticket</b>", "inputs: ticket (required), note", "Decide…")
	wantMarkup(t, page, `href="/runs/1/approve?step=confirm"`, `data-live="/live/runs/1/part"`)
	form := b.page(t, runPath(run)+"/approve?step=confirm", http.StatusOK)
	wantTexts(t, form, "Release it?", "See <b>ticket</b>")
	if strings.Contains(form, "inputs: ticket") {
		t.Errorf("it lists the inputs above their fields:\n%s", form)
	}
	wantMarkup(t, form, ticketField+" required>", `oarlock approve 1 confirm -i ticket=`)
	crumbs := form[strings.Index(form, `class="crumbs"`):strings.Index(form, `class="head"`)]
	wantMarkup(t, crumbs, `href="/approvals?mine=1"`, `href="/runs/1"`)
	if strings.Contains(crumbs, `href="/runs"`) || strings.Contains(form, `href="/schedules"`) {
		t.Errorf("it leads to what an approver may not see: %s", form)
	}
	wantAnswer(t, request(t, b.handler, "/"), http.StatusSeeOther, "/approvals?mine=1")
	wantTexts(t, b.page(t, "/runs", http.StatusOK), "There is no run that you may see.")
	b.exec(t, "UPDATE oarlock.approvals_open SET prompt = '', inputs = '[]'")
	wantTexts(t, b.page(t, runPath(run), http.StatusOK), "◷ confirm Decide…")
	b.exec(t, `UPDATE oarlock.approvals_open SET inputs = '[{"name": "ticket", "type": "string", "required": true}, {"name": "note", "type": "string"}]'`)
	w := b.post(t, runPath(run)+"/approve", "step", "confirm", "input.note", "kept")
	if w.Code != http.StatusUnprocessableEntity {
		t.Errorf("without what it asks for: %d", w.Code)
	}
	wantMarkup(t, w.Body.String(), `id="input-ticket-problem"`, `name="input.note" type="text" value="kept"`)
	w = b.post(t, runPath(run)+"/reject", "step", "confirm", "comment", "wrong day")
	wantAnswer(t, w, http.StatusSeeOther, "/runs/1?asked=1&step=confirm")
	page = b.page(t, w.Header().Get("Location"), http.StatusOK)
	wantTexts(t, page, "confirm: reject asked for")
	wantMarkup(t, page, `data-live="/live/runs/1/part?asked=1"`)
}

func TestRunPart_StaysAfterTheDecision(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_approve", Options{})
	run, other := b.foreign(t), b.foreign(t)
	b.ask(t, run)
	b.settle(t, run, "approved by <b>ana</b>")
	page := b.page(t, runPath(run)+"?step=confirm", http.StatusOK)
	wantTexts(t, page, "report #1", "confirm ✓ succeeded approved by <b>ana</b>")
	if strings.Contains(page, "secret") || strings.Contains(page, "<form method=\"post\"") || strings.Contains(page, "Decide…") {
		t.Errorf("it shows what went into the run, or came out, or a decision:\n%s", page)
	}
	wantAnswer(t, b.get(t, runPath(run)+"/approve?step=confirm"), http.StatusSeeOther, "/runs/1?step=confirm")
	for _, path := range []string{runPath(other), runPath(other) + "/approve?step=confirm", runPath(run) + "/log", runPath(run) + "/cancel", runPath(run) + "/steps/confirm"} {
		b.page(t, path, http.StatusNotFound)
	}
	b.exec(t, "UPDATE oarlock.runs SET state = 'succeeded', started_at = now(), finished_at = now(), queue_deadline = NULL WHERE run_id = $1", run)
	if page = b.page(t, runPath(run), http.StatusOK); strings.Contains(page, "data-live") {
		t.Error("of a run that is over, it waits for news")
	}
	var found struct {
		Tasks []struct{ Step, Reason string }
	}
	if err := json.Unmarshal([]byte(b.page(t, "/api/v1"+runPath(run), http.StatusOK)), &found); err != nil || len(found.Tasks) != 2 || found.Tasks[1].Reason == "" {
		t.Errorf("a program is answered with %v, %v", found, err)
	}
}

// The link of a decided approval leads each role to a page that the role may see.
func TestRunPart_IsForApproversAlone(t *testing.T) {
	t.Parallel()
	for role, whole := range map[string]bool{"oarlock_read": true, "oarlock_admin": true, "oarlock_approve": false} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			b := setup(t, role, Options{})
			run := b.foreign(t)
			b.ask(t, run)
			b.settle(t, run, "approved by ana")
			w := b.get(t, runPath(run)+"/approve?step=confirm")
			wantAnswer(t, w, http.StatusSeeOther, "/runs/1?step=confirm")
			page := b.page(t, w.Header().Get("Location"), http.StatusOK)
			wantTexts(t, page, "approved by ana")
			if strings.Contains(page, "secret") != whole {
				t.Errorf("it sees the run whole: %v, want %v", !whole, whole)
			}
		})
	}
	b := setup(t, "oarlock_submit", Options{}) // it submitted another run
	run := b.foreign(t)
	b.ask(t, run)
	b.settle(t, run, "approved by ana")
	b.page(t, runPath(run), http.StatusNotFound)
	b.page(t, runPath(run)+"/approve?step=confirm", http.StatusNotFound)
}
