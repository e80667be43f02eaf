package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// A host is lost without notice: its worker is silent, and another worker goes on once the lease is over. There is time
// to look before.
func TestRunbook_AHostIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: nightly
steps:
  - {id: load, run: '. $DIR/lib; see start; [ $OARLOCK_ATTEMPT != 1 ] || hold never'}
`)
	lost := b.worker(t, "w1", "lease_ttl=12s")
	_, pid := b.driver(t, "w1")
	run := b.enqueue(t, "nightly", nil)
	b.untilSeen(t, run, "start load#1")
	b.worker(t, "w2", short...)
	b.driver(t, "w2")
	signal(t, syscall.SIGKILL, lost.Process.Pid, pid)
	book := b.openRunbook(t, "A host is lost")
	book.words["RUN"] = fmt.Sprint(run)
	book.console(t)
	book.console(t)
}

// A run stays queued, and status explains why.
func TestRunbook_ARunIsStuck(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: train
worker_selector: {gpu: 'yes'}
steps:
  - {id: fit, run: '. $DIR/lib; echo still training; see start; hold never'}
`)
	b.worker(t, "w1")
	b.driver(t, "w1")
	run := b.enqueue(t, "train", nil)
	book := b.openRunbook(t, "A run is stuck")
	book.words["RUN"] = fmt.Sprint(run)
	book.console(t)
	b.worker(t, "w2", "labels=gpu=yes") // as the page says
	b.untilSeen(t, run, "start fit#1")
	book.console(t)
	book.console(t)
}

// The primary dies while a task runs, and a synchronous standby takes its place: the task goes on.
func TestRunbook_TheDatabaseFailsOver(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts servers")
	}
	primary := pgcluster.Start(t, nil)
	standby := primary.Standby(t)
	if err := set(t.Context(), primary, "synchronous_standby_names", "*"); err != nil {
		t.Fatal(err)
	}
	both := eitherOf(t, primary, standby)
	b := newTestBundle(t, &pgtest.DB{URL: both}, both)
	b.put(t, `
name: nightly
steps:
  - {id: load, run: '. $DIR/lib; see start; hold go'}
`)
	w := b.worker(t, "w1", "listen=127.0.0.1:0")
	run := b.enqueue(t, "nightly", nil)
	b.untilSeen(t, run, "start load#1")
	book := b.openRunbook(t, "The database fails over")
	book.words["RUN"] = fmt.Sprint(run)
	primary.Crash(t)
	book.log(t, w)
	notReady := func(reason string) {
		until(t, "/readyz says that "+reason, func() bool { return strings.HasPrefix(w.page(t, "/readyz"), reason) })
	}
	notReady("the database lets no runs be read (")
	b.write(t, "go", "")
	standby.Promote(t)
	book.log(t, w)
	book.console(t)
	b.once(t, run, "start load")
}

// The server's disk gets full while a task runs: the end of the task is recorded once there is room.
func TestRunbook_TheDiskOfTheDatabaseIsFull(t *testing.T) {
	t.Parallel()
	b, _, fill := setupOnSmallDisk(t)
	b.put(t, `
name: nightly
steps:
  - {id: load, run: '. $DIR/lib; see start; hold go; head -c 24000 /dev/urandom | base64'}
`)
	w := b.worker(t, "w1")
	run := b.enqueue(t, "nightly", nil)
	b.untilSeen(t, run, "start load#1")
	remove := fill()
	t.Cleanup(remove)
	b.write(t, "go", "")
	book := b.openRunbook(t, "The disk of the database is full")
	book.words["RUN"] = fmt.Sprint(run)
	book.log(t, w)
	book.console(t)
	remove()
	book.log(t, w)
	book.console(t)
	b.once(t, run, "start load")
}

// The workers are drained, and the schema is one version older than the new program needs.
func TestRunbook_AnUpgradeWithAStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "name: nightly\nsteps: [{id: load, run: '. $DIR/lib; see start'}]\n")
	old := b.worker(t, "w1")
	b.driver(t, "w1")
	book := b.openRunbook(t, "An upgrade with a stop")
	book.console(t)
	if code := old.exit(t); code != 0 {
		t.Errorf("the old worker ended with %d", code)
	}
	run := b.enqueue(t, "nightly", nil)
	book.words["RUN"] = fmt.Sprint(run)
	people := *b
	people.url = b.db.URL
	people.oarlock(t, "migrate", "down", "--to", "11", "--yes", "--force")
	book.console(t)
	b.worker(t, "w2")
	book.console(t)
	b.once(t, run, "start load")
}

// PgBouncer stands before the database, first in a mode that workers cannot use, then in a usable mode but too small.
func TestRunbook_APoolerRefusesTheWorker(t *testing.T) {
	b := setup(t)
	b.put(t, "name: nightly\nsteps: [{id: load, run: '. $DIR/lib; see start'}]\n")
	run := b.enqueue(t, "nightly", nil)
	book := b.openRunbook(t, "A pooler refuses the worker")
	book.words["RUN"] = fmt.Sprint(run)
	direct := b.url
	through := func(p pgtest.PgBouncer) (w *process, url string) {
		one := *b
		one.url, one.dir = p.Start(t, direct), t.TempDir()
		return one.worker(t, "w1"), one.url
	}
	small, smallURL := through(pgtest.PgBouncer{Lines: []string{book.ahead(t, "ini"), "default_pool_size = 4"}})
	t.Parallel() // that worker waits for a third of a minute, which passes while this test waits for its turn
	refused := func(w *process, url string) {
		book.url = url
		w.ends(t, 6)
		book.log(t, w)
		book.console(t)
	}
	refused(through(pgtest.PgBouncer{Mode: "transaction"}))
	book.next(t, "ini")
	refused(small, smallURL)
	b.url = pgtest.PgBouncer{Lines: []string{book.next(t, "ini")}}.Start(t, direct)
	book.url = b.url
	b.worker(t, "w1")
	book.console(t)
	b.once(t, run, "start load")
}

// The primary is gone, and its backup was recovered to a point in time: the copy has an open run, and lacks a later one.
func TestRunbook_RestoreAndPITR(t *testing.T) {
	t.Parallel()
	b, node := setupOn(t, nil)
	b.put(t, "name: nightly\nsteps: [{id: load, run: '. $DIR/lib; see start'}]\n")
	b.served(t, "w1")
	run := b.enqueue(t, "nightly", nil)
	restored := reach(t, node.Restore(t).URL())
	b.enqueue(t, "nightly", nil)
	book := restored.openRunbook(t, "Restore and PITR")
	book.words["RUN"] = fmt.Sprint(run)
	early := restored.worker(t, "w1")
	book.log(t, early)
	if code := early.exit(t); code != 5 {
		t.Errorf("the worker that came too early ended with %d", code)
	}
	book.console(t)
	book.console(t)
	restored.worker(t, "w1")
	book.console(t)
}

// A dump of production is restored beside production.
func TestRunbook_ACopyOfProduction(t *testing.T) {
	t.Parallel()
	b, node := setupOn(t, nil)
	b.put(t, "name: nightly\nsteps: [{id: load, run: '. $DIR/lib; see start'}]\n")
	b.served(t, "w1")
	run := b.enqueue(t, "nightly", nil)
	staging := reach(t, restoreDump(t, node, "staging"))
	book := staging.openRunbook(t, "Copy of production")
	book.words["RUN"] = fmt.Sprint(run)
	early := staging.worker(t, "w1")
	book.log(t, early)
	if code := early.exit(t); code != 5 {
		t.Errorf("the worker that came too early ended with %d", code)
	}
	for range 3 {
		book.console(t)
	}
	b.worker(t, "w1")
	book.url = b.db.URL
	book.console(t)
	b.once(t, run, "start load")
}

// The workers' login may have two connections while a task runs: the task and its run end in order. A second worker waits
// for more.
func TestRunbook_TooFewConnections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: nightly
steps:
  - {id: load, run: '. $DIR/lib; see start; hold go'}
`)
	app := b.db.RoleName("app")
	workers := *b
	workers.url = b.db.User(t, "app", "oarlock_worker")
	workers.worker(t, "w1")
	run := b.enqueue(t, "nightly", nil)
	b.untilSeen(t, run, "start load#1")
	if err := script(t.Context(), b.db.URL, "limit_login", "login", app, "limit", "2"); err != nil {
		t.Fatal(err)
	}
	b.write(t, "go", "")
	book := b.openRunbook(t, "Too few connections")
	book.words["RUN"], book.words["login app"], book.words["ROLE app"] = fmt.Sprint(run), "login "+app, "ROLE "+app
	book.console(t)
	w2 := workers.worker(t, "w2", "listen=127.0.0.1:0")
	book.log(t, w2)
	until(t, "/readyz says what it waits for", func() bool {
		return strings.HasPrefix(w2.page(t, "/readyz"), "waiting for connections of the database: it gives ") // none, or some of 10
	})
	if _, err := b.db.Conn(t).Exec(t.Context(), book.next(t, "sql")); err != nil {
		t.Fatal(err)
	}
	book.console(t)
	b.once(t, run, "start load")
}
