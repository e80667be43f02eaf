package web

import (
	"net/http"
	"strings"
	"testing"

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
