package integration

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/queue"
)

// account counts the bytes of an attempt.
type account struct {
	Stored, Dropped int64
	End             string
	Last            string // the word of the final marker
}

// account reads the stored log of an attempt. It fails the test if a chunk number is missing.
func (b *testBundle) account(t *testing.T, run queue.RunID, step string) (a account) {
	t.Helper()
	q := queue.LogQuery{Run: run, Step: step, Attempt: 1}
	for {
		chunks, err := b.ReadLogs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(chunks) == 0 {
			return a
		}
		for _, c := range chunks {
			if c.Seq != q.From {
				t.Fatalf("run %d, %s: chunk %d follows %d others", run, step, c.Seq, q.From)
			}
			q.From++
			a.Dropped += c.Dropped
			if c.Stream != queue.StreamOarlock {
				a.Stored += int64(len(c.Data))
			}
			if c.Final {
				a.End, a.Last = c.Reason, strings.TrimSpace(string(c.Data))
			}
		}
	}
}

// A body that writes faster than the log can be stored is not held up for long, and each of its bytes is stored or
// counted.
func TestCorpus_EveryByteOfAFloodIsStoredOrCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: flood
steps:
  - {id: one, run: 'head -c 100000000 /dev/zero'}
  - {id: both, run: 'head -c 50000000 /dev/zero >&2 & head -c 50000000 /dev/zero; wait'}
`)
	const written, limit = 100_000_000, 1 << 20
	b.worker(t, "w1", "log_limit=1MiB")
	run := b.enqueue(t, "flood", nil)
	if got, want := b.await(t, run), "succeeded one=succeeded both=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := account{limit, written - limit, "succeeded", fmt.Sprintf("the log is incomplete: %d bytes were dropped", written-limit)}
	for _, step := range []string{"one", "both"} {
		if got := b.account(t, run, step); got != want {
			t.Errorf("%s: got %+v, want %+v", step, got, want)
		}
	}
}

func TestCorpus_WhatIsStoredIsWhatWasWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: bytes
steps:
  - {id: line, run: 'head -c 10000000 /dev/zero | tr "\\000" x | tee $DIR/line'}
  - {id: binary, run: '{ printf "\\000\\000\\377"; head -c 8000000 /dev/urandom; printf "\\000"; } | tee $DIR/binary'}
  - {id: zeros, run: 'head -c 5000000 /dev/zero | tee $DIR/zeros'}
`)
	b.worker(t, "w1")
	run := b.enqueue(t, "bytes", nil)
	if got, want := b.await(t, run), "succeeded line=succeeded binary=succeeded zeros=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for step, size := range map[string]int{"line": 10_000_000, "binary": 8_000_004, "zeros": 5_000_000} {
		text, end := b.log(t, run, step, 1)
		if want := b.digest(t, step); end != "succeeded" || hash(text) != want || len(text) != size {
			t.Errorf("%s: stored %s, ends with %q; written %s, to be %d bytes", step, hash(text), end, want, size)
		}
	}
}

// digest returns the hash of a file of the bench.
func (b *testBundle) digest(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join(b.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d bytes, %x", n, sum.Sum(nil))
}

// nasty are bodies that do not start, do not end, or leave something behind, all in one run. Their names say how they
// must fail, if they must.
const nasty = `
name: nasty
defaults: {kill: {grace: 100ms}}
steps:
  - {id: spawn_missing, command: /no/such/program}
  - {id: spawn_plain, command: $DIR/lib}
  - {id: spawn_nonsense, command: $DIR/nonsense}
  - {id: spawn_folder, run: 'true', working_dir: /no/such/folder}
  - {id: exit_code, run: exit 7}
  - {id: signal_self, run: kill -SEGV $$}
  - {id: timeout_deaf, run: 'trap "" TERM; sleep 120', timeout: 1s}
  - {id: timeout_unread, run: exec sleep 120, stdin: {file: $DIR/large}, timeout: 1s}
  - {id: timeout_tree, run: '. $DIR/lib; corpus; sleep 120', timeout: 1s}
  - {id: timeout_zombies, timeout: 1s, run: 'n=0; while [ $n -lt 200 ]; do sleep 0.3 & n=$((n+1)); done; exec sleep 120'}
  - {id: holder, run: 'sleep 120 & exit 0'}
  - {id: daemons, run: '. $DIR/lib; corpus'}
  - {id: many, run: 'n=0; while [ $n -lt 1000 ]; do /bin/true; n=$((n+1)); done'}
`

func TestCorpus_LeavesNothingInAWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, "large", strings.Repeat("0123456789", 1_000_000))
	b.write(t, "nonsense", "\x01\x02")
	for name, mode := range map[string]os.FileMode{"nonsense": 0o700, "lib": 0o600} {
		if err := os.Chmod(filepath.Join(b.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	b.put(t, nasty)
	w := b.worker(t, "w1", "slots=16", "listen=127.0.0.1:0")
	id, pid := b.driver(t, "w1")
	guard := w.Process.Pid
	b.playNasty(t)
	b.playNasty(t)
	before := [2]holdings{held(t, guard), held(t, pid)}
	routines := w.goroutines(t)
	for range 3 {
		b.playNasty(t)
	}
	if left := carriers(id); len(left) > 0 {
		t.Errorf("processes %v carry the worker's id", left)
	}
	var after [2]holdings
	var going int
	defer func() {
		t.Logf("guard and driver held %+v, and hold %+v; %d goroutines, and %d", before, after, routines, going)
	}()
	until(t, "guard and driver hold no more than before", func() bool {
		after, going = [2]holdings{held(t, guard), held(t, pid)}, w.goroutines(t)
		return after[0].Files <= before[0].Files && after[0].Children == 1 && after[1].Files <= before[1].Files && after[1].Children == 0 && going <= routines
	})
}

var (
	servesAt   = regexp.MustCompile(`127\.0\.0\.1:[1-9][0-9]*`)
	goroutines = regexp.MustCompile(`(?m)^go_goroutines ([0-9]+)$`)
)

// goroutines returns how many goroutines a worker's driver process has, by its metrics.
func (p *process) goroutines(t *testing.T) (n int) {
	t.Helper()
	_, said, _ := strings.Cut(p.said.String(), "answering health checks")
	answer, err := http.Get("http://" + servesAt.FindString(said) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := goroutines.FindSubmatch(page)
	if found == nil {
		t.Fatalf("no go_goroutines in\n%s", page)
	}
	n, _ = strconv.Atoi(string(found[1]))
	return n
}

// playNasty runs the corpus, and expects each of its steps to end as its name says.
func (b *testBundle) playNasty(t *testing.T) {
	t.Helper()
	run := b.enqueue(t, "nasty", nil)
	b.await(t, run)
	tasks, err := b.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tasks {
		kind, _, _ := strings.Cut(tasks[i].Step, "_")
		if !slices.Contains([]string{"spawn", "exit", "signal", "timeout"}, kind) {
			kind = ""
		}
		if tasks[i].FailureKind != kind {
			t.Errorf("%s failed as %q: %s", tasks[i].Step, tasks[i].FailureKind, tasks[i].Reason)
		}
	}
}

// holdings are resources that a process holds.
type holdings struct{ Files, Children int }

// held counts open files, without connections, which come and go with the load. It also counts children, zombies
// included.
func held(t *testing.T, pid int) (h holdings) {
	t.Helper()
	files, err := procfs.Files(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range files {
		if !strings.HasPrefix(to, "socket:") {
			h.Files++
		}
	}
	h.Children = len(children(pid))
	return h
}
