package integration

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// A worker does not retry for ever when a database refuses it: it prints what to do, and ends.
func TestWorker_NeedsASchema(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("wants a database")
	}
	b := &testBundle{db: pgtest.Empty(t), dir: t.TempDir()}
	b.url = b.db.URL
	w := b.worker(t, "w1")
	if code := w.exit(t); code != 5 {
		t.Errorf("it ended with %d, want 5", code)
	}
	if said := w.said.String(); !strings.Contains(said, "oarlock migrate up") {
		t.Errorf("it said %s, not what to do", said)
	}
}
