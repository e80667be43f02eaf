package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// cluster is what tools/cluster starts.
type cluster struct{ tool, dir string }

// startCluster brings a cluster up, and wants nothing left of it when the test ends.
func startCluster(t *testing.T, flags ...string) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	dir, err := os.MkdirTemp("", "oarlock-town-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{tool: filepath.Join(dir, "cluster"), dir: filepath.Join(dir, "c")}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if out, err := exec.Command("go", "build", "-o", c.tool, "github.com/oarlock-dev/oarlock/tools/cluster").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Cleanup(func() { c.down(t) })
	c.do(t, append([]string{"up", "--program", program}, flags...)...)
	return c
}

// try runs a word of the tool. A DATABASE_URL of the caller's is nothing to it.
func (c *cluster) try(args ...string) (string, error) {
	cmd := exec.Command(c.tool, append(args, "--dir", c.dir)...)
	cmd.Env = append(os.Environ(), "DATABASE_URL=postgres://nobody@127.0.0.1:1/none")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *cluster) do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(args...)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(c.dir, "keeper.log"))
		t.Fatalf("cluster %v: %v\n%s\n%s", args, err, out, log)
	}
	return out
}

// down ends a cluster, once or again.
func (c *cluster) down(t *testing.T) {
	t.Helper()
	if out, err := c.try("down"); err != nil {
		t.Errorf("down: %v\n%s", err, out)
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}

var exportedURL = regexp.MustCompile(`export DATABASE_URL='([^']+)'`)

// bench is for the cluster's database.
func (c *cluster) bench(t *testing.T) *bench {
	t.Helper()
	found := exportedURL.FindStringSubmatch(c.do(t, "env"))
	if found == nil {
		t.Fatal("it does not tell its database")
	}
	return newBench(t, &pgtest.DB{URL: found[1]}, found[1])
}

// oarlock runs a command for people.
func (b *bench) oarlock(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "DATABASE_URL=" + b.url}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("oarlock %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// town are many short runs, one whose driver is to be killed, and some of which one is on a worker that is to be drained.
const town = `
name: town
steps:
  - {id: a, run: '. $DIR/lib; see start; see end'}
  - {id: b, depends: [a], run: '. $DIR/lib; see start; see end'}
  - {id: c, depends: [b], run: '. $DIR/lib; see start; see end'}
`

const townHeld = `
name: held
steps:
  - {id: a, run: '. $DIR/lib; see start; hold go; see end'}
  - {id: b, depends: [a], run: '. $DIR/lib; see start; see end'}
`

const (
	townRuns     = 500
	townPatience = 4 * time.Minute
)

func TestCluster_500RunsOverAKillAndADrain(t *testing.T) {
	t.Parallel()
	var gone string
	t.Cleanup(func() { // when all is down
		if left := carriers(gone); len(left) > 0 {
			t.Errorf("processes %v of the worker that was killed are left", left)
		}
	})
	c := startCluster(t, "--workers", "3", "--set", "lease_ttl=2s", "--set", "heartbeat=400ms")
	b := c.bench(t)
	b.put(t, town)
	b.put(t, townHeld)
	b.putThree(t)

	lost := b.enqueue(t, "three", nil)
	b.untilSeen(t, lost, "ready b#1")
	killed := b.holder(t, lost)
	waiting, handed, drained := b.heldElsewhere(t, killed)
	ids, err := b.EnqueueMany(t.Context(), queue.Bulk{DAG: "town", Params: make([]any, townRuns)})
	if err != nil {
		t.Fatal(err)
	}
	runs := append(append(ids, lost), waiting...)
	b.untilSeen(t, ids[townRuns/10], "end c")
	gone, _ = b.driver(t, killed)
	c.do(t, "kill", killed)
	c.do(t, "drain", drained)
	until(t, drained+" drains", func() bool { return !strings.Contains(b.live(t), drained) })
	b.write(t, "go", "")

	b.allSucceed(t, runs)
	b.noneTwice(t, runs)
	b.tellsOf(t, lost, "worker "+killed+" was lost at", "worker "+killed+" was lost: queued again", "attempt 1 lost: driver lost")
	b.tellsOf(t, handed, "drive 2", "worker "+drained+" stops: handed on")
	if status := c.do(t, "status"); !strings.Contains(status, killed+"        killed") {
		t.Errorf("its status does not tell of the kill:\n%s", status)
	}
}

// holder is the worker that drives a run.
func (b *bench) holder(t *testing.T, run queue.RunID) (name string) {
	t.Helper()
	until(t, fmt.Sprintf("somebody has run %d", run), func() bool {
		r, err := b.Get(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		name = r.Worker
		return name != ""
	})
	return name
}

// heldElsewhere asks for runs that wait for a file, until one is on another worker than this.
func (b *bench) heldElsewhere(t *testing.T, than string) (all []queue.RunID, run queue.RunID, worker string) {
	t.Helper()
	const most = 40
	for range most {
		run = b.enqueue(t, "held", nil)
		all = append(all, run)
		b.untilSeen(t, run, "start a")
		if worker = b.holder(t, run); worker != than {
			return all, run, worker
		}
	}
	t.Fatalf("%d runs are all on %s", most, than)
	return nil, 0, ""
}

func (b *bench) allSucceed(t *testing.T, runs []queue.RunID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), townPatience)
	defer cancel()
	for _, run := range runs {
		r, err := b.Await(ctx, run)
		if err != nil {
			t.Fatalf("run %d is not over: %v", run, err)
		}
		if r.State != "succeeded" {
			t.Errorf("run %d: %s, %s", run, r.State, r.Reason)
		}
	}
}

// noneTwice wants each attempt to have started at most once, and none after the one that succeeded; and each that came
// before that one to be recorded as lost, or as failed where the DAG says so.
func (b *bench) noneTwice(t *testing.T, runs []queue.RunID) {
	t.Helper()
	starts := map[queue.RunID]map[string]int{}
	for _, s := range b.sights(t) {
		if s.What != "start" {
			continue
		}
		if starts[s.Run] == nil {
			starts[s.Run] = map[string]int{}
		}
		starts[s.Run][fmt.Sprintf("%s#%d", s.Step, s.Attempt)]++
	}
	lost := 0
	for _, run := range runs {
		tasks, err := b.Tasks(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for i := range tasks {
			task := &tasks[i]
			for n := range task.Attempt {
				count := starts[run][fmt.Sprintf("%s#%d", task.Step, n+1)]
				seen += count
				if count > 1 || count == 0 && n+1 == task.Attempt {
					t.Errorf("run %d: attempt %d of %s started %d times", run, n+1, task.Step, count)
				}
			}
			superseded := b.attempts(t, run, task.Step)
			lost += len(superseded)
			if len(superseded) != task.Attempt-1 {
				t.Errorf("run %d: %s succeeded at attempt %d, and before were %v", run, task.Step, task.Attempt, superseded)
			}
		}
		all := 0
		for _, n := range starts[run] {
			all += n
		}
		if all != seen {
			t.Errorf("run %d: %d starts, and %d that its tasks tell of: %v", run, all, seen, starts[run])
		}
	}
	t.Logf("measured: %d runs, %d attempts superseded", len(runs), lost)
}

// tellsOf wants status and events of a run to say certain things.
func (b *bench) tellsOf(t *testing.T, run queue.RunID, words ...string) {
	t.Helper()
	text := b.oarlock(t, "status", fmt.Sprint(run)) +
		b.oarlock(t, "events", fmt.Sprint(run))
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("run %d: nothing tells %q:\n%s", run, w, text)
		}
	}
}
