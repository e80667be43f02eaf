package integration

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/queue"
)

// The witness is a file outside the database in which tasks write that they live. Its lines are in the order in which
// they were written, each by one write to a file open for appending.

// library is the shell code that tasks of these tests source. Each wait in it has a limit, in case the test does not end
// it. The corpus are processes that are hard to find again: sessions of their own, orphans of orphans, closed streams,
// ignored signals.
const library = `
see() { read -r up _ </proc/uptime; echo "$1 $OARLOCK_RUN_ID $OARLOCK_STEP $OARLOCK_ATTEMPT $OARLOCK_FENCE $up" >>$DIR/witness; }
hold() { n=0; while [ ! -e "$DIR/$1" ]; do see tick; sleep 0.03 || :; n=$((n+1)); [ $n -lt 3000 ] || exit 99; done; }
corpus() {
	setsid -f sleep 120 </dev/null >/dev/null 2>&1
	setsid -f sh -c 'trap "" TERM HUP INT; setsid -f sleep 120; sleep 120' <&- >&- 2>&-
	(trap '' TERM; sh -c 'sleep 120 & exec sleep 120' & sleep 120 &) </dev/null >/dev/null 2>&1
	(env -i OARLOCK_WORKER_ID="$OARLOCK_WORKER_ID" sleep 120 >/dev/null 2>&1 &)
}
`

// sight is a line of the witness.
type sight struct {
	What    string // start, tick, end, or another word of a test
	Run     queue.RunID
	Step    string
	Attempt int
	Epoch   int
	At      time.Duration // since boot
}

func (b *testBundle) writeLibrary(t *testing.T) {
	t.Helper()
	b.write(t, "lib", strings.ReplaceAll(library, "$DIR", b.dir))
}

// write makes a file of the bench, complete at once.
func (b *testBundle) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// sights reads the witness.
func (b *testBundle) sights(t *testing.T) (all []sight) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "witness"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the line is being written
		}
		var s sight
		var up float64
		if _, err := fmt.Sscan(string(line), &s.What, &s.Run, &s.Step, &s.Attempt, &s.Epoch, &up); err != nil {
			t.Fatalf("witness: %q: %v", line, err)
		}
		s.At = time.Duration(up * float64(time.Second))
		all = append(all, s)
	}
	return all
}

// seen counts the sights that fit: "start b#2" matches starts of the second attempt of b, "start b" starts of any.
func (b *testBundle) seen(t *testing.T, run queue.RunID, what string) (n int) {
	t.Helper()
	for _, s := range b.sights(t) {
		if s.Run == run && (s.String() == what || s.What+" "+s.Step == what) {
			n++
		}
	}
	return n
}

func (s sight) String() string { return fmt.Sprintf("%s %s#%d", s.What, s.Step, s.Attempt) }

func (b *testBundle) untilSeen(t *testing.T, run queue.RunID, what string) {
	t.Helper()
	until(t, fmt.Sprintf("run %d: %s", run, what), func() bool { return b.seen(t, run, what) > 0 })
}

// once fails the test unless each of these is in the witness exactly once.
func (b *testBundle) once(t *testing.T, run queue.RunID, each ...string) {
	t.Helper()
	for _, what := range each {
		if n := b.seen(t, run, what); n != 1 {
			t.Errorf("run %d: %q is in the witness %d times, want once", run, what, n)
		}
	}
}

// checkEpochs expects the last sign of life of each epoch of a run before the first sign of the next epoch.
func (b *testBundle) checkEpochs(t *testing.T) {
	t.Helper()
	last := map[queue.RunID]sight{}
	for _, s := range b.sights(t) {
		if before := last[s.Run]; before.Epoch > s.Epoch {
			t.Errorf("run %d: %v of epoch %d after %v of epoch %d", s.Run, s, s.Epoch, before, before.Epoch)
		}
		last[s.Run] = s
	}
}

// attempts describes the attempts of a step that a later one superseded, and why.
func (b *testBundle) attempts(t *testing.T, run queue.RunID, step string) (all []string) {
	t.Helper()
	attempts, err := b.Attempts(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(attempts, func(x, y queue.Attempt) int { return cmp.Compare(x.Attempt, y.Attempt) })
	for i := range attempts {
		if a := &attempts[i]; a.Step == step {
			all = append(all, fmt.Sprintf("%d:%s", a.Attempt, a.FailureKind))
		}
	}
	return all
}

// log returns the stored log of an attempt: what it wrote, and the word of its final marker. It fails the test if a chunk
// number is missing.
func (b *testBundle) log(t *testing.T, run queue.RunID, step string, attempt int) (text, end string) {
	t.Helper()
	q := queue.LogQuery{Run: run, Step: step, Attempt: attempt}
	var all strings.Builder
	for {
		chunks, err := b.ReadLogs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range chunks {
			if c.Seq != q.From {
				t.Fatalf("run %d, %s#%d: chunk %d follows %d others", run, step, attempt, c.Seq, q.From)
			}
			q.From++
			all.Write(c.Data)
			if c.Final {
				end = c.Reason
			}
		}
		if len(chunks) == 0 {
			return all.String(), end
		}
	}
}

// carriers returns the processes with a worker's id in their environment. Zombies have no environment, so they are not
// among them.
func carriers(worker string) (pids []int) {
	mark := []byte("OARLOCK_WORKER_ID=" + worker + "\x00")
	_ = procfs.Walk(func(pid int, _ uint64) {
		if env, err := procfs.Environ(pid); err == nil && bytes.Contains(env, mark) {
			pids = append(pids, pid)
		}
	})
	return pids
}

// children returns the child processes of a process, zombies included. The oldest child of a guard is its driver process.
func children(parent int) []int {
	pids, _ := procfs.Children(parent)
	return pids
}

// figures logs the measured times and returns their median.
func figures(t *testing.T, what string, all []time.Duration) (median time.Duration) {
	t.Helper()
	slices.Sort(all)
	median = all[len(all)/2]
	t.Logf("measured: %s: median %v, max %v, of %d", what, median.Round(time.Millisecond/10), all[len(all)-1].Round(time.Millisecond/10), len(all))
	return median
}
