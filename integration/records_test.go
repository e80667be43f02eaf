package integration

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// bulky is a DAG with a first step that puts out more than a full disk has room for, and a second step that never ends.
const bulky = `
name: bulky
steps:
  - {id: a, run: '. $DIR/lib; see start; hold go; head -c 24000 /dev/urandom | base64; see end'}
  - {id: b, kill: {signal: SIGTERM, grace: 500ms}, run: '. $DIR/lib; trap "see term; exit 1" TERM; see start; [ $OARLOCK_ATTEMPT != 1 ] || hold never'}
  - {id: c, depends: [a, b], run: '. $DIR/lib; see start'}
`

// setupOnSmallDisk is setupOn on a disk that a test can fill.
func setupOnSmallDisk(t *testing.T) (b *testBundle, node *pgcluster.Node, fill func() (remove func())) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server")
	}
	folder := pgcluster.SmallDisk(t, 400<<20)
	node = pgcluster.StartIn(t, folder, map[string]string{"min_wal_size": "64MB", "max_wal_size": "128MB", "wal_keep_size": "0", "autovacuum": "off"})
	db := &pgtest.DB{URL: node.URL(), Name: "postgres"}
	return newTestBundle(t, db, db.Login(t, "oarlock_worker")), node, func() func() { return pgcluster.Fill(t, folder) }
}

// beginBulky makes w1 run both steps of a run. When the disk gets full, step a ends.
func (b *testBundle) beginBulky(t *testing.T, fill func() func(), settings ...string) (w *process, run queue.RunID, remove func()) {
	t.Helper()
	b.put(t, bulky)
	w = b.worker(t, "w1", settings...)
	run = b.enqueue(t, "bulky", nil)
	b.untilSeen(t, run, "tick a#1")
	b.untilSeen(t, run, "tick b#1")
	remove = fill()
	t.Cleanup(remove)
	b.write(t, "go", "")
	b.untilSeen(t, run, "end a#1")
	return w, run, remove
}

// endBulky expects the run to go on elsewhere: attempts recorded as running are closed as lost and start again.
func (b *testBundle) endBulky(t *testing.T, run queue.RunID) {
	t.Helper()
	b.untilOver(t, run)
	if got, want := b.shown(t, run), "succeeded a=succeeded b=succeeded c=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.once(t, run, "start a#1", "start a#2", "start b#1", "start b#2", "start c")
	b.checkEpochs(t)
}

// inTime expects a process to end within a bound, which is promised for a machine with room. Beside other tests, outside
// nightly runs, it may take twice as long. A driver process that is still there then prints what its goroutines wait for.
func (p *process) inTime(t *testing.T, bound time.Duration) {
	t.Helper()
	asked, most := time.Now(), bound*time.Duration(times(2, 1))
	late := time.AfterFunc(most, func() {
		for _, pid := range children(p.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGQUIT)
		}
	})
	defer late.Stop()
	p.exit(t)
	took := time.Since(asked)
	t.Logf("gone after %v", took.Round(time.Millisecond))
	if took > most {
		t.Errorf("it ended after %v, want %v at most", took, most)
	}
}

// failsFor matches the gauge of a worker with records that the database refuses.
var failsFor = regexp.MustCompile(`(?m)^oarlock_flush_failing_seconds [0-9.]*[1-9]`)

// page returns what a worker answers over HTTP; "": it does not answer.
func (p *process) page(t *testing.T, path string) string {
	t.Helper()
	said := p.said.String()
	said = said[max(0, strings.LastIndex(said, "answering health checks")):]
	found := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(said)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+found+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return string(text)
}

func TestRecords_AWorkerIsGoneInTimeThoughTheDiskIsFull(t *testing.T) {
	t.Parallel()
	const drain = 2 * time.Second
	b, _, fill := setupOnSmallDisk(t)
	w, run, remove := b.beginBulky(t, fill, fmt.Sprint("drain_timeout=", drain), "listen=127.0.0.1:0")
	ended := time.Now()
	id, _ := b.driver(t, "w1")
	until(t, "the worker tells of it", func() bool { return w.saw("the database takes no records") })
	until(t, "it is not ready", func() bool {
		return strings.HasPrefix(w.page(t, "/readyz"), "the database takes no records (disk full, 53100), since ")
	})
	if took := time.Since(ended); took > 5*time.Second*time.Duration(times(2, 1)) {
		t.Errorf("told after %v", took)
	}
	if page := w.page(t, "/metrics"); !failsFor.MatchString(page) {
		t.Error("the metrics do not show it")
	}
	until(t, "others can see it", func() bool {
		workers, err := b.Workers(t.Context())
		return err == nil && len(workers) == 1 && workers[0].Unfit == "the database takes no records (disk full, 53100)"
	})
	signal(t, syscall.SIGTERM, w.Process.Pid)
	w.inTime(t, drain+5*time.Second)
	if left := carriers(id); len(left) > 0 {
		t.Errorf("processes %v of its tasks are left", left)
	}
	remove()
	b.worker(t, "w2")
	b.endBulky(t, run)
}

func TestRecords_ASecondSignalEndsAWorkerAtOnceThoughTheDiskIsFull(t *testing.T) {
	t.Parallel()
	b, _, fill := setupOnSmallDisk(t)
	w, run, remove := b.beginBulky(t, fill, "drain_timeout=10m")
	until(t, "the worker tells of it", func() bool { return w.saw("the database takes no records") })
	signal(t, syscall.SIGTERM, w.Process.Pid)
	until(t, "it drains", func() bool { return b.live(t) == "" })
	signal(t, syscall.SIGTERM, w.Process.Pid)
	w.inTime(t, 2*time.Second)
	remove()
	b.worker(t, "w2")
	b.endBulky(t, run)
}

func TestRecords_AWorkerGivesItsRunsUpAndComesBackOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	b, _, fill := setupOnSmallDisk(t)
	settings := []string{"lease_ttl=3s"}
	w, run, remove := b.beginBulky(t, fill, settings...)
	first, _ := b.driver(t, "w1")
	until(t, "its session is closed", func() bool { return b.live(t) == "" })
	if left := carriers(first); len(left) > 0 {
		t.Errorf("the run was given up, and processes %v of its tasks are left", left)
	}
	if n := b.seen(t, run, "term b#1"); n != 1 {
		t.Errorf("b was asked to end %d times before it was killed, want once", n)
	}
	remove()
	b.endBulky(t, run) // by the same worker, in another life
	if second, _ := b.driver(t, "w1", first); second == first || !w.saw("the database takes records again") {
		t.Errorf("it did not register anew, or does not say that it is over")
	}
	if got := b.attempts(t, run, "b"); !slices.Equal(got, []string{"1:lost"}) {
		t.Errorf("attempts of b: %v", got)
	}
}

// If a worker lacks the right to read a run's requests, the run is not to blame: it waits, and its worker reports why.
func TestRecords_ARunWaitsWhileItsWorkerMayNotReadIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "name: d\nsteps:\n  - {id: a, run: '. $DIR/lib; see start; hold go'}\n")
	play := func(name string) {
		if err := script(t.Context(), b.db.URL, name); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(verb dagrun.Verb, run queue.RunID) {
		if _, err := b.Control(t.Context(), queue.Ask{Run: run, Verb: verb}); err != nil {
			t.Fatal(err)
		}
	}
	w := b.worker(t, "w1", "listen=127.0.0.1:0")
	run := b.enqueue(t, "d", nil)
	b.untilSeen(t, run, "tick a#1")
	play("forbid_mail")
	ask(dagrun.VerbPause, run)
	until(t, "it is not ready", func() bool {
		return strings.HasPrefix(w.page(t, "/readyz"), "the database lets no runs be read (permission denied, 42501), since ")
	})
	play("permit_mail")
	until(t, "it is ready", func() bool { return w.saw("the database lets runs be read again") })
	ask(dagrun.VerbResume, run)
	b.write(t, "go", "")
	b.untilOver(t, run)
	if got, want := b.shown(t, run), "succeeded a=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
