package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestApprovals_ShowWhatWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	wantTexts(t, b.page(t, "/approvals", http.StatusOK), "No approval waits that this login may see.")
	wantTexts(t, b.page(t, "/approvals?mine=1", http.StatusOK), "No approval waits for this login.")
	run := b.enqueue(t, queue.Request{})
	b.ask(t, run)
	wantTexts(t, b.page(t, "/approvals", http.StatusOK),
		"report #1 confirm", "Release it? See <b>ticket</b>", "waits for 5m0", "times out", "in 1h59m", "ticket, required", "note",
		"oarlock approve 1 confirm -i ticket=", "postgres, a member of oarlock_approve or an administrator", "oarlock approvals --all", "Decide…")
	wantMarkup(t, b.page(t, "/approvals", http.StatusOK), `href="/runs/1/approve?step=confirm"`)
}

func TestApprovals_OfAServerThatReadsOfferNoDecision(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{ReadOnly: true})
	b.ask(t, b.enqueue(t, queue.Request{}))
	page := b.page(t, "/approvals", http.StatusOK)
	wantTexts(t, page, "oarlock approve 1 confirm")
	if strings.Contains(page, "Decide…") {
		t.Error("it leads to a form that it refuses")
	}
}

func TestRegions_AreRenderedAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	b.enqueue(t, queue.Request{})
	list, err := b.server.listRuns(t.Context(), runFilter{})
	if err != nil {
		t.Fatal(err)
	}
	part, err := b.server.renderRegion("runs.html", "runs#list", list)
	if err != nil {
		t.Fatal(err)
	}
	wantTexts(t, part, "queued report #1")
	if _, err := b.server.renderRegion("walks.html", "walks#list", list); err == nil {
		t.Error("a region of no page was rendered")
	}
}
