package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/queue"
)

// nextProgram builds the program after this one. It knows one more migration, which leaves this program able to work.
func nextProgram(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../migrations")
	if err != nil {
		t.Fatal(err)
	}
	version := migrations.MaxVersion + 1
	change := fmt.Sprintf("-- +goose Up\n-- Programs from version %d work with it.\n%s\n-- +goose Down\n", version-1,
		read(t, filepath.Join(folder, "testdata", "next.sql")))
	const versions = "MinVersion int64 = %[1]d\n\tMaxVersion int64 = %[1]d\n"
	check := read(t, filepath.Join(folder, "check.go"))
	next := strings.Replace(check, fmt.Sprintf(versions, version-1), fmt.Sprintf(versions, version), 1)
	if next == check {
		t.Fatal("check.go does not name its versions where this test looks")
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(folder, "versions", fmt.Sprintf("%05d_next.sql", version)): write("next.sql", change),
		filepath.Join(folder, "check.go"):                                        write("check.go", next),
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "oarlock")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", write("overlay.json", string(overlay)), "-o", path,
		"github.com/oarlock-dev/oarlock/cmd/oarlock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// load enqueues runs until it is stopped, like an application.
type load struct {
	stop context.CancelFunc
	runs chan []queue.RunID
}

// beginLoad asks for a run of the DAG every 40 ms.
func (b *testBundle) beginLoad(t *testing.T, dag string) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{stop: cancel, runs: make(chan []queue.RunID, 1)}
	go func() {
		tick := time.NewTicker(40 * time.Millisecond)
		defer tick.Stop()
		var runs []queue.RunID
		for ctx.Err() == nil {
			run, err := b.Enqueue(context.WithoutCancel(ctx), queue.Request{DAG: dag})
			if err != nil {
				t.Errorf("an application was refused: %v", err)
			} else {
				runs = append(runs, run)
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		l.runs <- runs
	}()
	t.Cleanup(cancel)
	return l
}

// ended counts runs that are over.
func (b *testBundle) ended(t *testing.T) int {
	t.Helper()
	return len(b.in(t, "succeeded"))
}

// Three workers are replaced one after the other while an application goes on: no run fails, and nothing happens twice.
func TestUpgrade_WithoutAStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	next := nextProgram(t)
	b.put(t, town)
	old := map[string]*process{}
	for _, name := range []string{"w1", "w2", "w3"} {
		old[name] = b.worker(t, name, "slots=2")
		b.driver(t, name)
	}
	asked := b.beginLoad(t, "town")
	until(t, "ten runs are over", func() bool { return b.ended(t) >= 10 })

	book := b.openRunbook(t, "An upgrade without a stop")
	book.oarlock = next
	people := *b
	people.url = b.db.URL
	began := time.Now()
	book.console(t)
	book.console(t)
	until(t, "the old workers go on with the new schema", func() bool { return b.ended(t) >= 30 })
	b.oarlock(t, "list") // a command of the old program works, too
	for _, name := range []string{"w1", "w2", "w3"} {
		id, _ := b.driver(t, name)
		if name == "w1" {
			book.console(t)
		} else {
			people.oarlock(t, "workers", "drain", name)
		}
		if code := old[name].exit(t); code != 0 {
			t.Errorf("%s ended with %d", name, code)
		}
		if old[name].saw("takes no records") || old[name].saw("lets no runs be read") {
			t.Errorf("%s missed the old schema", name)
		}
		one := *b
		one.another = next
		one.worker(t, name, "slots=2")
		b.driver(t, name, id)
	}
	book.console(t)
	t.Logf("measured: from migrate up until all three workers were of the new program: %v", time.Since(began).Round(time.Millisecond))
	asked.stop()
	runs := <-asked.runs
	b.allSucceed(t, runs)
	if lost := b.noneTwice(t, runs); lost > 0 {
		t.Errorf("%d attempts began again: a drain waits for tasks this short", lost)
	}
}

// A worker of an older program finds a DAG that a newer program applied, with a key that it does not know: the run waits
// for other workers.
func TestUpgrade_ANewerDAGWaitsForANewerWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "name: nightly\nsteps: [{id: load, run: '. $DIR/lib; see start'}]\n")
	b.conn = b.db.Conn(t)
	b.do(t, "newer_dag")
	b.worker(t, "w1")
	run := b.enqueue(t, "nightly", nil)
	until(t, "it is put away", func() bool {
		r, err := b.Get(t.Context(), run)
		return err == nil && r.State == "waiting" && strings.Contains(r.Reason, "worker w1, version (devel), cannot read it") && strings.Contains(r.Reason, "new_key")
	})
	if n := b.seen(t, run, "start load"); n != 0 {
		t.Errorf("it began %d times", n)
	}
}
