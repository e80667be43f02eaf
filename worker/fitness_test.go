package worker

import (
	"slices"
	"testing"
	"time"
)

func TestFitness_NamesItsReasonsOldestFirstAndTellsOnceItIsMended(t *testing.T) {
	t.Parallel()
	mended, changed := 0, 0
	f := fitness{mended: func() { mended++ }, changed: func() { changed++ }}
	noon := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	if !f.ok() || f.texts() != nil {
		t.Fatalf("a new one is unfit: %q", f.texts())
	}
	f.set(unfitRecords, noon, "no records")
	f.set(unfitHost, noon.Add(time.Second), "no processes")
	f.set(unfitRecords, noon.Add(time.Minute), "still no records")
	want := []string{"still no records, since 2026-11-24T12:00:00Z", "no processes, since 2026-11-24T12:00:01Z"}
	if f.ok() || !slices.Equal(f.texts(), want) {
		t.Errorf("got %q, want %q", f.texts(), want)
	}
	if changed != 2 {
		t.Errorf("the oldest reason changed %d times, want twice: it came, and it has another text", changed)
	}
	if r, ok := f.of(unfitHost); !ok || r.since != noon.Add(time.Second) {
		t.Errorf("the host: %v %v", r, ok)
	}
	f.clear(unfitRecords)
	f.clear(unfitRecords)
	if f.ok() || mended != 0 {
		t.Errorf("ok %v, mended %d times though one reason is left", f.ok(), mended)
	}
	f.clear(unfitHost)
	f.clear(unfitHost)
	if _, ok := f.of(unfitHost); ok || !f.ok() || mended != 1 {
		t.Errorf("ok %v, mended %d times, want once", f.ok(), mended)
	}
	if changed != 4 {
		t.Errorf("the oldest reason changed %d times, want two more: each went", changed)
	}
}

// Bodies that began before a host broke go on and end. Their ends do not prove that the host can start tasks.
func TestHost_IsProvedOnlyByABodyThatBeganAfterItBroke(t *testing.T) {
	t.Parallel()
	h := host{}
	before := h.failuresSoFar()
	h.failures++
	if h.proves(before); h.proved.Load() {
		t.Error("a body from before the failure proves that the host starts bodies")
	}
	if h.proves(h.failuresSoFar()); !h.proved.Load() {
		t.Error("a body that began after the failure proves nothing")
	}
}
