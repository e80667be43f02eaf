package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// Right after an outage the last signs of life of all workers are old, which says nothing of the workers.
func TestWatch_BlamesNoWorkerForAnOutage(t *testing.T) {
	t.Parallel()
	quiet, began := &queue.Run{Quiet: true}, time.Now()
	for name, c := range map[string]struct {
		took   []time.Duration // of looks, the last of which has just ended
		unread bool            // the last one failed
		later  time.Duration
		want   bool
	}{
		"no outage":                  {[]time.Duration{time.Millisecond}, false, 0, true},
		"the look failed":            {[]time.Duration{time.Millisecond}, true, signsAfter - 1, false},
		"the look waited for it":     {[]time.Duration{time.Millisecond, 4 * time.Second}, false, signsAfter - 1, false},
		"the worker had time enough": {[]time.Duration{4 * time.Second}, true, signsAfter + 1, true},
		"each look is slow":          {[]time.Duration{4 * time.Second, 4 * time.Second, 4 * time.Second, 4 * time.Second}, false, 0, true},
	} {
		w, now := &watcher{}, began
		for i, took := range c.took {
			now = now.Add(took)
			w.looked(now, took, c.unread && i == len(c.took)-1)
		}
		if got := w.mayBlame(quiet, now.Add(c.later)); got != c.want {
			t.Errorf("%s: a quiet worker is blamed: %v, want %v", name, got, c.want)
		}
		if !w.mayBlame(&queue.Run{}, now) {
			t.Errorf("%s: a run of a worker that gives signs of life is not shown", name)
		}
	}
}

// If --timeout passes while the database is away, the command ends with a timeout, and the run goes on.
func TestStatus_TimesOutWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.New(t)
	register(t, db.URL)
	proxy, address := netfault.Through(t, db.URL)
	e := testEnv()
	if got := invoke(t, e, "enqueue", "etl", "--database-url", address); got.exit != exitOK {
		t.Fatalf("exit %d\n%s", got.exit, got.stderr)
	}
	var stdout strings.Builder
	stderr := &toldWriter{told: func() { proxy.Refuse(true); proxy.CutAll() }}
	e.Stdout, e.Stderr = &stdout, stderr
	code := run(t.Context(), e, strings.Fields("status 1 -w --progress plain --timeout 1s --database-url "+address))
	said := stderr.text.String()
	if exit(code) != exitTimeout || !strings.Contains(said, "cannot connect to ") || !strings.Contains(said, "the run goes on: `oarlock status 1 -w`") {
		t.Errorf("exit %d, want %d\n%s%s", code, exitTimeout, stdout.String(), said)
	}
}
