package integration

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/queue"
)

// keyed is a DAG with a body that notes its key, and the worker that ran it.
const keyed = `
name: keyed
steps:
  - {id: a, run: 'echo "$OARLOCK_IDEMPOTENCY_KEY" >> $DIR/keys-$WHO'}
`

// keyedRuns returns how many keys of each installation are compared.
func keyedRuns() int { return times(20, 100) }

// reach returns a bench for the database behind a URL.
func reach(t *testing.T, url string) *testBundle {
	t.Helper()
	b := newTestBundle(t, &pgtest.DB{URL: url}, url)
	return b
}

// serve makes a worker execute keyed runs to their end, and returns the runs' numbers and the keys that their bodies saw.
func (b *testBundle) serve(t *testing.T, who string, settings ...string) (runs []queue.RunID, keys []string) {
	t.Helper()
	w := b.worker(t, who, append([]string{"env=WHO=" + who, "slots=16"}, settings...)...)
	runs, keys = b.execute(t, who)
	w.leave(t)
	return runs, keys
}

// served starts a worker and stops it again.
func (b *testBundle) served(t *testing.T, name string, settings ...string) {
	t.Helper()
	w := b.worker(t, name, settings...)
	b.driver(t, name)
	w.leave(t)
}

// execute enqueues keyed runs for a worker that is running already.
func (b *testBundle) execute(t *testing.T, who string) (runs []queue.RunID, keys []string) {
	t.Helper()
	b.put(t, keyed)
	runs, err := b.EnqueueMany(t.Context(), queue.Bulk{DAG: "keyed", Params: make([]any, keyedRuns())})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		b.await(t, run)
	}
	return runs, b.keys(t, who)
}

// keys returns the keys that bodies saw under the worker of this name.
func (b *testBundle) keys(t *testing.T, who string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "keys-"+who))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// apart expects equal numbers of runs to have led to different keys.
func apart(t *testing.T, runs, again []queue.RunID, keys, others []string) {
	t.Helper()
	if !slices.Equal(runs, again) {
		t.Errorf("numbers did not come again: %v and %v", runs, again)
	}
	all := slices.Concat(keys, others)
	slices.Sort(all)
	if distinct := len(slices.Compact(slices.Clone(all))); len(keys) != keyedRuns() || len(others) != keyedRuns() || distinct != 2*keyedRuns() {
		t.Errorf("%d and %d keys were given, %d different ones", len(keys), len(others), distinct)
	}
}

// adopt tells Oarlock what a database is.
func (b *testBundle) adopt(t *testing.T, as string) string {
	t.Helper()
	return b.oarlock(t, "migrate", "adopt", as, "--yes")
}

// pgClient runs a client program of Postgres.
func pgClient(t *testing.T, name string, args ...string) {
	t.Helper()
	bin, err := pglocal.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin.Dir, name), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// restoreDump restores a dump into a new database of the node, and returns its URL.
func restoreDump(t *testing.T, node *pgcluster.Node, name string) string {
	t.Helper()
	into, err := url.Parse(node.URL())
	if err != nil {
		t.Fatal(err)
	}
	into.Path = "/" + name
	pgClient(t, "createdb", "--template=template0", "--maintenance-db="+node.URL(), name)
	restoreInto(t, node, into.String())
	return into.String()
}

// restoreInto restores a dump into an empty database.
func restoreInto(t *testing.T, node *pgcluster.Node, url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dump")
	pgClient(t, "pg_dump", "--format=custom", "--file="+file, node.URL())
	pgClient(t, "pg_restore", "--exit-on-error", "--dbname="+url, file)
}

func TestIdentity_NoKeyIsGivenTwice(t *testing.T) {
	t.Parallel()
	t.Run("two installations", func(t *testing.T) {
		t.Parallel()
		one, other := setup(t), setup(t)
		runs, keys := one.serve(t, "one")
		again, others := other.serve(t, "other")
		apart(t, runs, again, keys, others)
	})
	for name, restore := range map[string]func(*testing.T, *pgcluster.Node) string{
		"a dump is restored":        func(t *testing.T, n *pgcluster.Node) string { return restoreDump(t, n, "restored") },
		"restored to a past moment": func(t *testing.T, n *pgcluster.Node) string { return n.Restore(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, node := setupOn(t, nil)
			b.served(t, "first")
			then := reach(t, restore(t, node))
			runs, keys := b.serve(t, "lost") // the worker ends then
			then.adopt(t, "--moved")
			again, others := then.serve(t, "restored")
			apart(t, runs, again, keys, others)
		})
	}
	t.Run("a promotion loses runs", func(t *testing.T) {
		t.Parallel()
		b, primary, standby := pair(t)
		b.worker(t, "both", "env=WHO=both", "slots=16")
		standby.Follow(t, primary)
		b.driver(t, "both")
		b.put(t, keyed)
		standby.Follow(t, primary)
		standby.Cut(t)
		runs, keys := b.execute(t, "both")
		primary.Crash(t)
		standby.Promote(t)
		until(t, "the standby takes runs", func() bool { _, err := b.Workers(t.Context()); return err == nil })
		again, all := b.execute(t, "both") // by the worker that lived through the change
		apart(t, runs, again, keys, all[len(keys):])
	})
}

// pair returns a bench on a primary with an asynchronous standby.
func pair(t *testing.T) (b *testBundle, primary, standby *pgcluster.Node) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers")
	}
	primary = pgcluster.Start(t, nil)
	standby = primary.Standby(t)
	return reach(t, eitherOf(t, primary, standby)), primary, standby
}

// refused expects a worker to end by itself, with the status that its guard takes for final, and with a line that
// explains why.
func refused(t *testing.T, w *process) {
	t.Helper()
	if code := w.exit(t); code != 5 {
		t.Errorf("it ended with %d, want 5", code)
	}
	for _, words := range []string{"this may be a copy of installation ", "oarlock migrate adopt --moved", "oarlock migrate adopt --copy"} {
		if n := strings.Count(w.said.String(), words); n != 1 {
			t.Errorf("it says %q %d times", words, n)
		}
	}
}

func TestIdentity_ACopyBesideItsOriginalStartsNothingOfIt(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]func(*testing.T, *pgcluster.Node) string{
		"a dump is restored":        func(t *testing.T, n *pgcluster.Node) string { return restoreDump(t, n, "staging") },
		"restored to a past moment": func(t *testing.T, n *pgcluster.Node) string { return n.Restore(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, node := setupOn(t, nil)
			b.put(t, keyed)
			b.put(t, relay)
			held := b.worker(t, "original", "env=WHO=original", "slots=1")
			running := b.relayed(t, 1)
			runs, err := b.EnqueueMany(t.Context(), queue.Bulk{DAG: "keyed", Params: make([]any, keyedRuns())})
			if err != nil {
				t.Fatal(err)
			}
			staging := reach(t, restore(t, node))
			staging.staysStill(t)
			if keys := append(b.keys(t, "early"), b.keys(t, "staging")...); len(keys) > 0 { // of runs accepted before the copy, or by its version
				t.Errorf("%d bodies of the original ran in the copy", len(keys))
			}
			staging.adopt(t, "--copy")
			for _, run := range append(runs, running) {
				if r, err := staging.Get(t.Context(), run); err != nil || r.State != "canceled" || !strings.Contains(r.Reason, "this database is a copy") {
					t.Errorf("run %d in the copy: %+v, %v", run, r, err)
				}
			}
			if _, keys := staging.serve(t, "staging"); len(keys) != keyedRuns() {
				t.Errorf("%d bodies ran in the copy, want its own %d", len(keys), keyedRuns())
			}
			if keys := append(b.keys(t, "early"), b.keys(t, "staging")...); len(keys) > 0 {
				t.Errorf("%d bodies of the original ran in the copy once it was adopted", len(keys))
			}
			b.letGo(t, 1)
			b.done(t, running)
			for _, run := range runs {
				b.await(t, run)
			}
			if n := len(b.keys(t, "original")); n != keyedRuns() {
				t.Errorf("%d bodies ran in the original, want %d", n, keyedRuns())
			}
			held.leave(t)
		})
	}
}

// staysStill expects a copy to refuse workers, to say so in every place, and still to accept requests.
func (b *testBundle) staysStill(t *testing.T) {
	t.Helper()
	refused(t, b.worker(t, "staging", "env=WHO=early"))
	doctor := b.start(t, []string{"database_url=" + b.url}, "doctor")
	if code := doctor.exit(t); code != 1 || !strings.Contains(doctor.said.String(), "this may be a copy of installation ") {
		t.Errorf("doctor ends with %d: %s", code, doctor.said)
	}
	if status := b.oarlock(t, "migrate", "status"); !strings.Contains(status, "this may be a copy of installation ") {
		t.Errorf("migrate status says %s", status)
	}
	if id := b.enqueue(t, "keyed", nil); id == 0 {
		t.Error("nothing can be asked for")
	}
}

// No worker lives through the promotion. Then the state folder shows whether the installation is known.
func TestIdentity_AfterAPromotionAStateFolderKnowsTheInstallation(t *testing.T) {
	t.Parallel()
	b, primary, standby := pair(t)
	b.put(t, keyed)
	b.served(t, "w")
	standby.Follow(t, primary)
	primary.Crash(t)
	standby.Promote(t)
	refused(t, b.worker(t, "w", "env=WHO=w", "state_dir="+filepath.Join(b.dir, "empty")))
	w := b.worker(t, "w", "env=WHO=w")
	b.execute(t, "w")
	w.leave(t)
	b.served(t, "w2", "state_dir="+filepath.Join(b.dir, "empty")) // the timeline is known by now
	if out := b.adopt(t, "--moved"); !strings.HasPrefix(out, "nothing to do") {
		t.Errorf("adopt says %s", out)
	}
}

// The second host of the URL is another server, with a dump. It looks like a failover and leads to a copy.
func TestIdentity_AWorkerAtWorkStopsBehindACopy(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts servers")
	}
	original, other := pgcluster.Start(t, nil), pgcluster.StartEmpty(t, nil)
	roles := filepath.Join(t.TempDir(), "roles")
	pgClient(t, "pg_dumpall", "--roles-only", "--file="+roles, "--dbname="+original.URL())
	pgClient(t, "psql", "--quiet", "--file="+roles, other.URL()) // with the passwords
	b := reach(t, eitherOf(t, original, other))
	w := b.worker(t, "w", "env=WHO=w", "slots=1")
	running := b.relayed(t, 1)
	b.put(t, keyed)
	if _, err := b.EnqueueMany(t.Context(), queue.Bulk{DAG: "keyed", Params: make([]any, keyedRuns())}); err != nil {
		t.Fatal(err)
	}
	copied, err := url.Parse(original.URL())
	if err != nil {
		t.Fatal(err)
	}
	there, err := url.Parse(other.URL())
	if err != nil {
		t.Fatal(err)
	}
	copied.Host = there.Host
	restoreInto(t, original, copied.String())
	original.Crash(t)
	b.write(t, "go1", "")
	refused(t, w)
	if keys := b.keys(t, "w"); len(keys) > 0 {
		t.Errorf("%d bodies ran in the copy", len(keys))
	}
	if r, err := b.Get(t.Context(), running); err != nil || r.Epoch != 1 {
		t.Errorf("in the copy run %d is %+v, %v", running, r, err)
	}
}
