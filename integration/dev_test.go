package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/queue"
)

// startDev starts `oarlock dev` for an empty folder. At the end of the test one signal must end it completely.
func startDev(t *testing.T, workers string, settings ...string) (p *process, folder string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server")
	}
	state, err := os.MkdirTemp(pglocal.FastTempDir(), "oarlock-dev-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	folder = filepath.Join(state, "dags")
	// Started as root, Postgres runs as another user, and that user must be able to enter the folder.
	if err := errors.Join(os.Chmod(state, 0o755), os.Mkdir(folder, 0o755)); err != nil {
		t.Fatal(err)
	}
	p = (&testBundle{dir: state}).start(t, append(settings, "$XDG_STATE_HOME="+state), "dev", "--workers", workers, folder)
	t.Cleanup(func() {
		signal(t, syscall.SIGINT, p.Process.Pid)
		if code := p.exit(t); code != 0 {
			t.Errorf("it ended with %d", code)
		}
		if left, _ := exec.Command("pgrep", "-fa", state).Output(); len(left) > 0 {
			t.Errorf("its processes are left: %s", left)
		}
	})
	return p, folder
}

// found waits until a process prints something, and returns the group of the match.
func (p *process) found(t *testing.T, expression string) (group string) {
	t.Helper()
	wanted := regexp.MustCompile("(?m)" + expression)
	until(t, "it says "+expression, func() bool {
		match := wanted.FindStringSubmatch(p.said.String())
		if match != nil {
			group = match[1]
		}
		return match != nil
	})
	return group
}

// oarlock runs a command as a user does.
func (b *testBundle) oarlock(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(cmp.Or(b.another, program), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "DATABASE_URL=" + b.url}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("oarlock %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// town is a DAG of short steps, for many runs at once.
const town = `
name: town
steps:
  - {id: a, run: '. $DIR/lib; see start; see end'}
  - {id: b, depends: [a], run: '. $DIR/lib; see start; see end'}
  - {id: c, depends: [b], run: '. $DIR/lib; see start; see end'}
`

// townHeld is a DAG with runs that stay on their worker until the test writes a file named "go".
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

func TestDev_500RunsOverAKillAndADrain(t *testing.T) {
	t.Parallel()
	p, folder := startDev(t, "3", "lease_ttl=2s")
	url := p.found(t, `^database  DATABASE_URL='(.+)'$`)
	b := newTestBundle(t, &pgtest.DB{URL: url}, url)
	apply := func(name, source, version string) {
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(strings.ReplaceAll(source, "$DIR", b.dir)), 0o600); err != nil {
			t.Fatal(err)
		}
		p.found(t, `^(applied `+name+` version `+version+`) from `)
	}
	apply("town", strings.ReplaceAll(town, "see end", "false"), "1")
	apply("town", town, "2")
	apply("held", townHeld, "1")
	apply("three", threeSteps, "1")

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
	gone, driver := b.driver(t, killed)
	guard, err := strconv.Atoi(p.found(t, "^worker    "+killed+`  pid (\d+)$`))
	if err != nil {
		t.Fatal(err)
	}
	killAll(t, guard, driver)
	if _, err := b.DrainWorker(t.Context(), drained); err != nil {
		t.Fatal(err)
	}
	until(t, drained+" drains", func() bool { return !strings.Contains(b.live(t), drained) })
	b.write(t, "go", "")

	b.allSucceed(t, runs)
	b.noneTwice(t, runs)
	b.tellsOf(t, lost, "worker "+killed+" was lost at", "worker "+killed+" was lost: queued again", "attempt 1 lost: driver lost")
	// several times, if the worker that took the run up had no slot for it and gave it back
	b.tellsOf(t, handed, "took the run up again", "worker "+drained+" stops, and put the run back into the queue")
	p.found(t, "^"+killed+` \(pid (\d+)\) ended: signal: killed; its runs go on`)
	p.found(t, "^"+drained+` \(pid (\d+)\) was drained: other workers take its runs`)
	p.found(t, "^worker    "+killed+`  pid (\d+), started again$`)
	b.driver(t, killed, gone)
	if left := carriers(gone); len(left) > 0 {
		t.Errorf("processes %v of the worker that was killed are left", left)
	}
}

// holder returns the name of the worker that drives a run.
func (b *testBundle) holder(t *testing.T, run queue.RunID) (name string) {
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

// heldElsewhere enqueues runs that wait for a file, until one of them is on a worker other than this.
func (b *testBundle) heldElsewhere(t *testing.T, than string) (all []queue.RunID, run queue.RunID, worker string) {
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

func (b *testBundle) allSucceed(t *testing.T, runs []queue.RunID) {
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

// noneTwice checks that each attempt started at most once, and none after the attempt that succeeded. Each earlier
// attempt must be recorded as lost, or as failed where the DAG makes it fail. noneTwice returns how many earlier attempts
// there were.
func (b *testBundle) noneTwice(t *testing.T, runs []queue.RunID) (lost int) {
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
		if all := sum(starts[run]); all != seen {
			t.Errorf("run %d: %d starts, and %d that its tasks tell of: %v", run, all, seen, starts[run])
		}
	}
	t.Logf("measured: %d runs, %d attempts superseded", len(runs), lost)
	return lost
}

// tellsOf expects status and events of a run to contain certain words.
func (b *testBundle) tellsOf(t *testing.T, run queue.RunID, words ...string) {
	t.Helper()
	text := b.oarlock(t, "status", fmt.Sprint(run)) +
		b.oarlock(t, "events", fmt.Sprint(run))
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("run %d: nothing tells %q:\n%s", run, w, text)
		}
	}
}
