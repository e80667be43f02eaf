package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

func (b *testBundle) states(t *testing.T) string {
	t.Helper()
	var states string
	err := b.conn.QueryRow(t.Context(), "SELECT string_agg(state, ' ' ORDER BY run_id) FROM oarlock.runs").Scan(&states)
	if err != nil {
		t.Fatal(err)
	}
	return states
}

func TestBulk_AsksTheRunsThatItShowed(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	for range 3 {
		b.enqueue(t, queue.Request{})
	}
	wantTexts(t, b.page(t, "/runs", http.StatusOK), "Retry what failed…", "Cancel…", "all that match, up to 1,000")
	wantTexts(t, b.page(t, "/runs/act?verb=cancel&run=1&run=3&run=3&run=77", http.StatusOK), "2 runs; nothing is asked yet", "#1", "#3", "oarlock cancel 77 3 1", "Cancel: 2 runs")
	wantTexts(t, b.page(t, "/runs/act?verb=cancel&all=1&dag=report", http.StatusOK), "3 runs; nothing is asked yet",
		"oarlock cancel --state scheduled --state queued --state running --state waiting --state paused --dag report")
	if got := b.states(t); got != "queued queued queued" {
		t.Fatalf("looking made them %s", got)
	}
	b.enqueue(t, queue.Request{}) // matches the filter, but was not on the page
	for range 2 {
		w := b.post(t, "/runs/act", onceField, "a", "verb", "cancel", "run", "1", "run", "3")
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		wantTexts(t, w.Body.String(), "2 of 2 accepted", "#3", "applied")
	}
	if got := b.states(t); got != "canceled queued canceled queued" {
		t.Errorf("they are %s", got)
	}
	var asked int
	if err := b.conn.QueryRow(t.Context(), "SELECT count(*) FROM oarlock.controls").Scan(&asked); err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	w := b.post(t, "/runs/act", "verb", "retry", "run", "2", "run", "4")
	wantTexts(t, w.Body.String(), "0 of 2 accepted", "refused, ")
}

func TestBulk_RefusesWhatHasNoMeaning(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_admin", Options{})
	for _, query := range []string{"?verb=", "?verb=approve&run=1", "?verb=cancel", "?verb=cancel&run=x", "?verb=cancel&all=1&state=late"} {
		if w := b.get(t, "/runs/act"+query); w.Code != http.StatusBadRequest {
			t.Errorf("%q: %d", query, w.Code)
		}
	}
	many := make([]string, 0, 2*maxBulk+4)
	for i := range maxBulk + 1 {
		many = append(many, "run", fmt.Sprint(i+1))
	}
	if w := b.post(t, "/runs/act", append(many, "verb", "cancel")...); w.Code != http.StatusBadRequest {
		t.Errorf("more than %d runs: %d", maxBulk, w.Code)
	}
}

func TestBulk_IsOfferedToThoseWhoMay(t *testing.T) {
	t.Parallel()
	b := setup(t, "oarlock_read", Options{})
	if _, err := openStore(t, b.db.URL).Enqueue(t.Context(), queue.Request{DAG: "report"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/runs", "/runs/act?verb=cancel&run=1"} {
		if page := b.page(t, path, http.StatusOK); strings.Contains(page, `method="post"`) || strings.Contains(page, "Chosen runs:") {
			t.Errorf("%s offers to cancel", path)
		}
	}
	w := b.post(t, "/runs/act", "verb", "cancel", "run", "1")
	wantTexts(t, w.Body.String(), "0 of 1 accepted")
	if got := b.states(t); got != "queued" {
		t.Errorf("it is %s", got)
	}
}
