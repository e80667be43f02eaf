package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/worker"
)

// reported waits until a program without stdout has told its pid.
func reported(t *testing.T, path, word string) int {
	t.Helper()
	pid := 0
	await.True(t, word+" reports", func() bool {
		text, _ := os.ReadFile(path)
		pid = pidIn(string(text), word)
		return pid > 0
	})
	return pid
}

// tagged returns an executor, and the environment entry by which its bodies can be counted from outside.
func tagged(t *testing.T, change ...func(*Config)) (*testBundle, string) {
	t.Helper()
	id := suite + "/" + t.Name() + "/" + strconv.FormatInt(time.Now().UnixNano(), 36)
	x := setup(t, change...)
	x.worker = id
	return x, "OARLOCK_WORKER_ID=" + id
}

// inBoth runs a test without and, where this machine allows it, with a cgroup per attempt.
func inBoth(t *testing.T, test func(t *testing.T, change func(*Config))) {
	t.Helper()
	t.Parallel()
	t.Run("proc", func(t *testing.T) {
		t.Parallel()
		test(t, func(*Config) {})
	})
	if own := OwnCgroup(); own != "" {
		t.Run("cgroup", func(t *testing.T) {
			t.Parallel()
			test(t, func(c *Config) { c.Cgroup = own })
		})
	}
}

func TestKill_EndsTheWholeTree(t *testing.T) {
	inBoth(t, func(t *testing.T, change func(*Config)) {
		for _, name := range []string{"sleep", "ignore", "daemon-wait", "stopped"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				x, tag := tagged(t, change)
				ctx, cancel := context.WithCancel(t.Context())
				grace := map[string]time.Duration{"ignore": 100 * time.Millisecond, "daemon-wait": 100 * time.Millisecond}[name]
				if grace == 0 {
					grace = time.Hour // these end when they are asked to
				}
				task := killedBy(program(name), "SIGTERM", grace)
				report := t.TempDir() + "/report"
				task.Resolved.Env["REPORT"] = report
				result := x.begin(t, ctx, task)
				if name == "daemon-wait" {
					daemon := reported(t, report, "daemon")
					await.True(t, "the daemon runs", func() bool { return alive(daemon) })
				} else {
					await.True(t, "the body runs", func() bool { return stdout(task) != "" })
				}
				cancel()
				got := <-result
				if left := carriers(t, tag); left > 0 {
					t.Errorf("%d processes are left", left)
				}
				want := map[string]int{"ignore": 9, "sleep": 15, "stopped": 15}[name]
				if got.Kind != dagrun.KindSignal || want != 0 && got.Signal != want {
					t.Errorf("got %+v", got)
				}
			})
		}
	})
}

func TestKill_WaitsForTheGraceOnlyAsLongAsSomethingLives(t *testing.T) {
	t.Parallel()
	x := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	task := killedBy(shell("trap 'echo bye; exit 4' USR1; echo ready; while :; do sleep 0.01; done"), "SIGUSR1", time.Hour)
	result := x.begin(t, ctx, task)
	await.True(t, "ready", func() bool { return stdout(task) == "ready\n" })
	cancel()
	if got := <-result; got.ExitCode != 4 || stdout(task) != "ready\nbye\n" {
		t.Errorf("got %+v, %q; the body's own end and its last words count", got, stdout(task))
	}
}

func TestKill_NowLeavesNoGrace(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"now", "after asking"} {
		x, tag := tagged(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		task := killedBy(program("ignore"), "SIGTERM", time.Hour)
		result := x.begin(t, ctx, task)
		await.True(t, "ready", func() bool { return stdout(task) != "" })
		if order != "now" {
			cancel()
		}
		close(task.Now)
		if got := <-result; got.Signal != 9 || carriers(t, tag) > 0 {
			t.Errorf("%s: got %+v, %d left", order, got, carriers(t, tag))
		}
	}
}

func TestKill_MeetsEveryProcessOfABomb(t *testing.T) {
	inBoth(t, func(t *testing.T, change func(*Config)) {
		x, tag := tagged(t, change)
		ctx, cancel := context.WithCancel(t.Context())
		task := killedBy(program("bomb"), "SIGTERM", 0)
		task.Resolved.Env["LEFT"] = "5" // 63 processes
		result := x.begin(t, ctx, task)
		await.True(t, "it spreads", func() bool { return carriers(t, tag) >= 5 })
		cancel()
		if got := <-result; got.Signal != 9 || carriers(t, tag) > 0 {
			t.Errorf("got %+v, %d left", got, carriers(t, tag))
		}
	})
}

func TestLeftovers_AreEndedAtOnce(t *testing.T) {
	inBoth(t, func(t *testing.T, change func(*Config)) {
		for _, name := range []string{"daemon", "daemon-attached", "orphan-holder"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				x, tag := tagged(t, change)
				task, notes := noted(killedBy(program(name), "SIGTERM", time.Hour))
				if got := x.run(t, task); got.Kind != dagrun.KindNone {
					t.Errorf("got %+v: the body itself succeeded", got)
				}
				if left := carriers(t, tag); left > 0 {
					t.Errorf("%d processes are left", left)
				}
				if text := notes.String(); !strings.Contains(text, "left behind: ") || !strings.Contains(text, "(pid ") {
					t.Errorf("noted %q", text)
				}
			})
		}
	})
}

func noted(task *worker.Task) (*worker.Task, *await.Buffer) {
	notes := &await.Buffer{}
	task.Note = func(text string) { _, _ = notes.Write([]byte(text)) }
	return task, notes
}

func TestLeftovers_HearTheSignalThenAreKilled(t *testing.T) {
	t.Parallel()
	x, tag := tagged(t)
	task := killedBy(shell("setsid sh -c 'trap \"echo asked\" USR1; >ready; while :; do sleep 0.01; done' & while [ ! -e ready ]; do sleep 0.01; done"), "SIGUSR1", time.Hour)
	got := x.run(t, task)
	if got.Kind != dagrun.KindNone || !strings.Contains(stdout(task), "asked\n") || carriers(t, tag) > 0 {
		t.Errorf("got %+v, %q, %d left", got, stdout(task), carriers(t, tag))
	}
}

func TestLeftovers_MayJustBeEnding(t *testing.T) {
	t.Parallel()
	x := setup(t)
	task, notes := noted(killedBy(shell("(trap 'echo asked' TERM; exec 3<pipe; echo late) & echo early; exec 3>pipe; exit 0"), "SIGTERM", time.Hour))
	dir := t.TempDir()
	if err := unix.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	task.Body.WorkingDir = dir
	if got := x.run(t, task); got.Kind != dagrun.KindNone || stdout(task) != "early\nlate\n" || notes.String() != "" {
		t.Errorf("got %+v, %q, noted %q", got, stdout(task), notes)
	}
}

func TestLeftovers_HearACancel(t *testing.T) {
	t.Parallel()
	x, tag := tagged(t)
	ctx, cancel := context.WithCancel(t.Context())
	const orphan = `trap "echo asked; exit" TERM; >ready; while grep -q "^PPid:[^0-9]*$PPID$" /proc/$$/status; do :; done; echo alone; while :; do sleep 0.01; done`
	task := killedBy(shell("setsid sh -c '"+orphan+"' & while [ ! -e ready ]; do sleep 0.01; done"), "SIGTERM", time.Hour)
	result := x.begin(t, ctx, task)
	await.True(t, "it is alone, or was asked already", func() bool { return stdout(task) != "" })
	cancel()
	if got := <-result; got.Kind != dagrun.KindNone || !strings.HasSuffix(stdout(task), "asked\n") || carriers(t, tag) > 0 {
		t.Errorf("got %+v, %q", got, stdout(task))
	}
}

func TestLeftovers_LiveUntilCloseWhereTheStepKeepsThem(t *testing.T) {
	inBoth(t, func(t *testing.T, change func(*Config)) {
		x, tag := tagged(t, change)
		keep := func(task *worker.Task) *worker.Task {
			killedBy(task, "SIGTERM", time.Hour).Body.Kill.Leftovers = "keep"
			return task
		}
		writer := keep(shell("setsid sh -c 'echo pid=$$; while :; do echo more || exit; sleep 0.001; done' & while [ ! -e /proc/$!/stat ]; do :; done; exit 0"))
		if got := x.run(t, writer); got.Kind != dagrun.KindNone {
			t.Fatalf("got %+v", got)
		}
		daemon := keep(program("daemon"))
		daemon.Resolved.Env["REPORT"] = t.TempDir() + "/report"
		if got := x.run(t, daemon); got.Kind != dagrun.KindNone {
			t.Fatalf("got %+v", got)
		}
		pid := reported(t, daemon.Resolved.Env["REPORT"], "daemon")
		length := len(stdout(writer))
		await.True(t, "it goes on", func() bool { return carriers(t, tag) >= 2 && alive(pid) })
		if len(stdout(writer)) != length {
			t.Error("the log goes on after its task has ended")
		}
		if err := x.Close(); err != nil || carriers(t, tag) > 0 {
			t.Errorf("after Close %d are left: %v", carriers(t, tag), err)
		}
	})
}

// fdPasser keeps the write end of a body's pipe open in the test process, which is not part of the body.
func TestPipe_HeldByAStrangerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	x := setup(t)
	task := killedBy(shell("echo pid=$$; while [ ! -e go ]; do sleep 0.01; done; printf last"), "SIGTERM", time.Hour)
	dir := t.TempDir()
	task.Body.WorkingDir = dir
	result := x.begin(t, t.Context(), task)
	await.True(t, "it runs", func() bool { return pidIn(stdout(task), "pid") > 0 })
	held, err := os.OpenFile(procfs.Path(pidIn(stdout(task), "pid"), "fd/1"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-result; got.Kind != dagrun.KindNone || !strings.HasSuffix(stdout(task), "\nlast") {
		t.Errorf("got %+v, %q", got, stdout(task))
	}
}

func TestPipe_ClosedByTheBodyDoesNotEndIt(t *testing.T) {
	t.Parallel()
	x := setup(t)
	task := program("close-stdio")
	dir := t.TempDir()
	task.Body.WorkingDir, task.Resolved.Env["REPORT"] = dir, dir+"/report"
	result := x.begin(t, t.Context(), task)
	reported(t, dir+"/report", "closed")
	select {
	case got := <-result:
		t.Fatalf("ended with its pipes: %+v", got)
	case <-time.After(20 * time.Millisecond):
	}
	if err := os.WriteFile(dir+"/end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-result; got.Kind != dagrun.KindNone {
		t.Errorf("got %+v", got)
	}
}

func TestTree_SparesOtherBodies(t *testing.T) {
	t.Parallel()
	x := setup(t)
	other := program("sleep")
	still, stop := context.WithCancel(t.Context())
	running := x.begin(t, still, other)
	await.True(t, "the other runs", func() bool { return stdout(other) != "" })
	ctx, cancel := context.WithCancel(t.Context())
	task := killedBy(program("daemon-wait"), "SIGKILL", 0)
	task.Resolved.Env["REPORT"] = t.TempDir() + "/report"
	result := x.begin(t, ctx, task)
	reported(t, task.Resolved.Env["REPORT"], "daemon")
	cancel()
	<-result
	if !alive(pidIn(stdout(other), "pid")) {
		t.Error("a kill reached another attempt")
	}
	stop()
	<-running
}

func TestProcTracker_FindsAProcessThatLeftEverythingButItsParent(t *testing.T) {
	t.Parallel()
	x := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	task := killedBy(shell("setsid env -i sh -c 'echo pid=$$; while :; do sleep 0.01; done' & wait"), "SIGKILL", 0)
	result := x.begin(t, ctx, task)
	await.True(t, "it runs", func() bool { return pidIn(stdout(task), "pid") > 0 })
	cancel()
	<-result
	if alive(pidIn(stdout(task), "pid")) {
		t.Error("it lives")
		_ = unix.Kill(pidIn(stdout(task), "pid"), unix.SIGKILL)
	}
}

func TestProcTracker_CgroupFindsAnOrphanWithoutATrace(t *testing.T) {
	t.Parallel()
	own := OwnCgroup()
	if own == "" {
		t.Skip("this machine lets nobody make cgroups here")
	}
	x := setup(t, func(c *Config) { c.Cgroup = own })
	task := killedBy(shell("(setsid env -i sh -c 'echo pid=$$; while :; do /bin/sleep 0.01; done' >&2 2>/dev/null </dev/null &) ; sleep 0.2; exit 0"), "SIGTERM", 10*time.Millisecond)
	task.Body.Run = "(setsid env -i sh -c 'echo pid=$$ >pid; mv pid pid.done; while :; do /bin/sleep 0.01; done' >/dev/null 2>&1 </dev/null &); while [ ! -e pid.done ]; do sleep 0.01; done; cat pid.done"
	if got := x.run(t, task); got.Kind != dagrun.KindNone {
		t.Fatalf("got %+v: %s", got, stderr(task))
	}
	if pid := pidIn(stdout(task), "pid"); pid == 0 || alive(pid) {
		t.Errorf("process %d lives", pid)
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func TestCgroup_SweepsWhatAKilledExecutorLeft(t *testing.T) {
	t.Parallel()
	own := OwnCgroup()
	if own == "" {
		t.Skip("this machine lets nobody make cgroups here")
	}
	const nobodysPID = 1 << 23 // above every pid_max
	var left []string
	for _, name := range []string{strings.ToUpper(strconv.FormatInt(time.Now().UnixNano(), 36)) + "-1", "try"} {
		left = append(left, filepath.Join(own, fmt.Sprintf("oarlock-%d-%s", nobodysPID, name)))
	}
	for _, path := range left {
		if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	setup(t, func(c *Config) { c.Cgroup = own })
	for _, path := range left {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
}
