package integration

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/queue"
)

// talking is a DAG with steps that write a lot, to their log and to a file, until the test lets them end.
const talking = `
name: talking
steps:
  - id: a
    run: |
      . $DIR/lib
      see start
      n=0
      while [ ! -e $DIR/go ]; do
        n=$((n+1))
        echo "line $n of run $OARLOCK_RUN_ID: 0123456789abcdef0123456789abcdef0123456789abcdef"
        [ $((n%50)) != 0 ] || sleep 0.02
        [ $n -lt 100000 ] || exit 99
      done | tee $DIR/copy-$OARLOCK_RUN_ID-$OARLOCK_ATTEMPT
      see end
  - {id: b, depends: [a], run: '. $DIR/lib; see start'}
`

// copied returns the file that an attempt of a wrote.
func (b *testBundle) copied(t *testing.T, run queue.RunID, attempt int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, fmt.Sprintf("copy-%d-%d", run, attempt)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func hash(text string) string {
	return fmt.Sprintf("%d bytes, %x", len(text), sha256.Sum256([]byte(text)))
}

// beginTalking makes a worker run a of n runs.
func (b *testBundle) beginTalking(t *testing.T, n int) (runs []queue.RunID) {
	t.Helper()
	b.put(t, talking)
	for range n {
		run := b.enqueue(t, "talking", nil)
		b.untilSeen(t, run, "start a#1")
		runs = append(runs, run)
	}
	return runs
}

// outages must not disturb a task, as long as each is over before the lease.
var outages = map[string]func(t *testing.T, b *testBundle, node node){
	"stopped for 5 s": func(t *testing.T, b *testBundle, node node) {
		node.Stop(t)
		b.pass(t, 5*time.Second)
		node.Start(t)
	},
	"crashed and started at once": func(t *testing.T, _ *testBundle, node node) {
		node.Crash(t)
		node.Start(t)
	},
	"a backend killed with SIGKILL": func(t *testing.T, _ *testBundle, node node) {
		all := backends(t, node)
		signal(t, syscall.SIGKILL, all[0]) // the server then ends all other backends, and recovers
		untilEnded(t, node, all)
	},
	"all backends terminated": func(t *testing.T, _ *testBundle, node node) {
		all := backends(t, node)
		for _, pid := range all { // a client may end its own meanwhile
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Fatal(err)
			}
		}
		untilEnded(t, node, all)
	},
}

// node is a server that a test may end.
type node interface {
	Start(tb testing.TB)
	Stop(tb testing.TB)
	Crash(tb testing.TB)
	PID() int
}

// backends returns the processes of a server that serve clients.
func backends(t *testing.T, node node) (pids []int) {
	t.Helper()
	for _, pid := range children(node.PID()) {
		title, _ := procfs.Cmdline(pid)
		if bytes.Contains(title, []byte(" 127.0.0.1(")) {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		t.Fatal("the server serves nobody")
	}
	return pids
}

// untilEnded waits until processes of a server have ended. A signal ends them some time later, and until then they answer.
func untilEnded(t *testing.T, node node, pids []int) {
	t.Helper()
	until(t, "the backends have ended", func() bool {
		left := children(node.PID())
		return !slices.ContainsFunc(pids, func(pid int) bool { return slices.Contains(left, pid) })
	})
}

// pass waits for d while the tasks of the bench run.
func (b *testBundle) pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

func TestOutage_TasksGoOnAndNothingIsMissingAfterwards(t *testing.T) {
	t.Parallel()
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, node := setupOn(t, nil)
			b.worker(t, "w1")
			runs := b.beginTalking(t, 2)
			outage(t, b, node)
			b.write(t, "go", "")
			for _, run := range runs {
				b.untilOver(t, run)
				if got, want := b.shown(t, run), "succeeded a=succeeded b=succeeded"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				b.once(t, run, "start a", "end a#1", "start b")
				text, end := b.log(t, run, "a", 1)
				if want := b.copied(t, run, 1); end != "succeeded" || text != want {
					t.Errorf("stored %s, ends with %q; written %s", hash(text), end, hash(want))
				}
			}
		})
	}
}

// untilOver awaits a run while servers come and go.
func (b *testBundle) untilOver(t *testing.T, run queue.RunID) {
	t.Helper()
	until(t, fmt.Sprintf("run %d is over", run), func() bool {
		r, err := b.Get(t.Context(), run)
		return err == nil && r.Over()
	})
}

// While the database is away, a step ends, so that its driver has something to write, and another step can be ended.
const besides = `
name: besides
steps:
  - {id: a, run: '. $DIR/lib; see start; hold a; see end'}
  - id: b
    kill: {signal: SIGTERM, grace: 10s}
    run: |
      . $DIR/lib
      trap 'see term; exit 1' TERM
      see start
      [ $OARLOCK_ATTEMPT != 1 ] || hold never
  - {id: c, depends: [a, b], run: '. $DIR/lib; see start'}
`

func TestOutage_LongerThanTheLeaseEndsTasksAndResumesRuns(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(node, testing.TB){"stopped": node.Stop, "crashed": node.Crash} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, node := setupOn(t, nil)
			settings := []string{"lease_ttl=6s"}
			b.put(t, besides)
			b.worker(t, "w1", settings...)
			run := b.enqueue(t, "besides", nil)
			b.untilSeen(t, run, "tick a#1")
			b.untilSeen(t, run, "tick b#1")
			id, _ := b.driver(t, "w1")
			b.worker(t, "w2", settings...)

			leave(node, t)
			b.write(t, "a", "")
			b.untilSeen(t, run, "end a#1")
			until(t, "its tasks are dead", func() bool { return len(carriers(id)) == 0 })
			if n := b.seen(t, run, "term b#1"); n != 1 {
				t.Errorf("b was asked to end %d times before it was killed, want once", n)
			}
			node.Start(t)
			b.untilOver(t, run)
			if got, want := b.shown(t, run), "succeeded a=succeeded b=succeeded c=succeeded"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := b.attempts(t, run, "b"); !slices.Equal(got, []string{"1:lost"}) {
				t.Errorf("attempts of b: %s", strings.Join(got, " "))
			}
			b.once(t, run, "start b#1", "start b#2", "start c")
			b.checkEpochs(t)
		})
	}
}

// send sends a file of testdata to the database, and returns the first value that it answers, as text.
func (b *testBundle) send(t *testing.T, name string) (answer string, err error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.db.URL)
	if err != nil {
		return "", err
	}
	defer conn.Close(t.Context())
	results, err := conn.PgConn().Exec(t.Context(), read(t, "testdata/"+name+".sql")).ReadAll()
	if err != nil || len(results[0].Rows) == 0 {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

func TestOutage_SQLBeginsAgain(t *testing.T) {
	t.Parallel()
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, node := setupOn(t, nil)
			b.put(t, read(t, "testdata/inside.yaml"))
			b.worker(t, "w1")
			if _, err := b.send(t, "inside"); err != nil {
				t.Fatal(err)
			}
			run := b.enqueue(t, "inside", nil)
			until(t, "a is inside its transaction", func() bool {
				answer, err := b.send(t, "inside_busy")
				return err == nil && answer == "t"
			})
			outage(t, b, node)
			until(t, "a may go on", func() bool {
				_, err := b.send(t, "inside_go")
				return err == nil
			})
			b.untilOver(t, run)
			if got, want := b.shown(t, run), "succeeded a=succeeded b=succeeded"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := b.attempts(t, run, "a"); len(got) == 0 || slices.ContainsFunc(got, func(a string) bool { return !strings.HasSuffix(a, ":lost") }) {
				t.Errorf("attempts of a: %s", strings.Join(got, " "))
			}
		})
	}
}
