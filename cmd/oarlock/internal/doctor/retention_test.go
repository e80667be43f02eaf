package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestRetention_SaysWhenNobodyPrunes(t *testing.T) {
	t.Parallel()
	db, store := newStore(t)
	look := func() Check {
		report, err := Run(t.Context(), db.URL, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return find(t, report, "retention")
	}
	const source = "name: old\nsteps: [{id: a, run: 'true'}]\n" // kept for 30 days
	spec, err := dagspec.Parse("old.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutDAG(t.Context(), spec, source, "old.yaml"); err != nil {
		t.Fatal(err)
	}
	run, err := store.Enqueue(t.Context(), queue.Request{DAG: "old"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbCancel}); err != nil {
		t.Fatal(err)
	}
	if c := look(); c.Status != OK {
		t.Errorf("a run that has just ended: %+v", c)
	}
	conn := db.Conn(t)
	defer conn.Close(t.Context())
	execFile(t, conn, "long_past.sql")
	if c := look(); c.Status != Warn || c.Detail != "runs of old should have been deleted 10 days ago" || !strings.Contains(c.Hint, "oarlock prune") {
		t.Errorf("a run of forty days ago: %+v", c)
	}
	if _, err := store.Prune(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if c := look(); c.Status != OK {
		t.Errorf("after a prune: %+v", c)
	}
}

// An overdue prune is only a warning: nothing breaks before the disk is full, which the room check reports.
func TestRetention_WarnsAsOperationsSays(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"docs/operations.md": fmt.Sprintf("`oarlock doctor` warns, with exit status 0, of runs that should have been deleted %d days ago", pruneGrace),
		"docs/cli.md":        "| `oarlock prune` does not run, and runs are past their retention | `retention` warns | 0 |",
		"deploy/alerts.yaml": fmt.Sprintf("max(oarlock_prune_overdue_seconds) > %d * 86400", pruneGrace),
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", file, want)
		}
	}
}
