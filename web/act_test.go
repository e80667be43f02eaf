package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// posting serves one form with the action do.
func posting(s *server, do action) http.Handler {
	mux := http.NewServeMux()
	s.post(mux, "/do", do)
	return s.guard(mux)
}

func TestPost_RefusesOtherSites(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	acted := 0
	h := posting(b.server, func(*http.Request) (answer, error) { acted++; return answer{To: "/runs"}, nil })
	send := func(name, value string) *httptest.ResponseRecorder {
		return request(t, h, "/do", func(r *http.Request) { r.Method = http.MethodPost; r.Header.Set(name, value) })
	}
	for _, w := range []*httptest.ResponseRecorder{
		send("Sec-Fetch-Site", "cross-site"), send("Sec-Fetch-Site", "same-site"), send("Origin", "http://localhost:7071"), send("Origin", "null"),
	} {
		if w.Code != http.StatusForbidden || acted != 0 {
			t.Errorf("%d, acted %d times", w.Code, acted)
		}
	}
	if w := post(t, h, "/do"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/runs" || acted != 1 {
		t.Errorf("of this site: %d, acted %d times", w.Code, acted)
	}
	if w := request(t, h, "/do"); w.Code != http.StatusMethodNotAllowed || acted != 1 {
		t.Errorf("GET: %d, acted %d times", w.Code, acted)
	}
}

func TestPost_ActsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	acted, answered, failed := 0, answer{To: "/runs"}, error(nil)
	h := posting(b.server, func(*http.Request) (answer, error) { acted++; return answered, failed })
	for range 3 {
		if w := post(t, h, "/do", onceField, "a"); w.Code != http.StatusSeeOther || acted != 1 {
			t.Errorf("%d, acted %d times", w.Code, acted)
		}
	}
	if post(t, h, "/do", onceField, "a", "now", "1"); acted != 2 {
		t.Errorf("a form that was changed: acted %d times", acted)
	}
	acted = 1
	failed, answered = queue.ErrUnknown, answer{}
	for range 2 {
		if w := post(t, h, "/do", onceField, "b"); w.Code != http.StatusServiceUnavailable || acted != 2 {
			t.Errorf("what became of it is not known: %d, acted %d times", w.Code, acted)
		}
	}
	failed = errors.New("refused")
	for n := range 2 {
		if post(t, h, "/do", onceField, "c"); acted != 3+n {
			t.Errorf("what failed cannot be sent again: acted %d times", acted)
		}
	}
}

func TestPost_ActsAgainAfterAPanic(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	acted := 0
	h := posting(b.server, func(*http.Request) (answer, error) {
		if acted++; acted == 1 {
			panic("the first time")
		}
		return answer{To: "/runs"}, nil
	})
	if w := post(t, h, "/do", onceField, "a"); w.Code != http.StatusInternalServerError || !strings.Contains(b.logged.String(), "the first time") {
		t.Errorf("%d, logged %s", w.Code, b.logged)
	}
	if w := post(t, h, "/do", onceField, "a"); w.Code != http.StatusSeeOther || acted != 2 {
		t.Errorf("sent again: %d, acted %d times", w.Code, acted)
	}
}

func TestPost_LeadsToTheRunThatWasAsked(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	mux := http.NewServeMux()
	const hint = "look for the request in the run's controls before you repeat the request: a second cancel skips handlers"
	b.server.post(mux, "/runs/{run}/cancel", func(*http.Request) (answer, error) {
		return answer{}, fmt.Errorf("cancel run 41: %w", &queue.UnknownError{Hint: hint})
	})
	w := post(t, b.server.guard(mux), "/runs/41/cancel")
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d", w.Code)
	}
	wantTexts(t, w.Body.String(), "it is not known whether", "Look for the request in the run's controls before you repeat the request: a second cancel skips handlers.")
	wantMarkup(t, w.Body.String(), `<a href="/runs/41">Run 41</a>`)
}

func TestPost_BoundsForms(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	h := posting(b.server, func(*http.Request) (answer, error) { t.Error("it acted"); return answer{}, nil })
	if w := post(t, h, "/do", "reason", strings.Repeat("x", maxFormBytes)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", w.Code)
	}
	only := setup(t, "", Options{ReadOnly: true})
	if w := post(t, posting(only.server, nil), "/do"); w.Code != http.StatusForbidden {
		t.Errorf("a server that only reads: %d", w.Code)
	}
	if rights := only.server.rights(t.Context()); rights.Submit || rights.Admin || !rights.Read || rights.Approve || rights.Steers(rights.Login) {
		t.Errorf("it offers %+v", rights)
	}
}

func TestRights_AreTheLogins(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]queue.Rights{
		"oarlock_read": {Read: true}, "oarlock_submit": {Submit: true, Approve: true}, "oarlock_approve": {Approve: true},
		"oarlock_admin": {Read: true, Submit: true, Approve: true, Admin: true}, "oarlock_worker": {Read: true, Submit: true, Approve: true, Work: true},
	} {
		b := setup(t, role, Options{})
		got := b.server.rights(t.Context())
		want.Login = got.Login
		if got != want || got.Login == "" {
			t.Errorf("%s: %+v", role, got)
		}
	}
}
