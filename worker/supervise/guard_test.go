//go:build linux

package supervise

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// stage is a folder with guards, and all processes that they start.
type stage struct {
	t    *testing.T
	play play
	mark string
	wrap []string // a command before the guard's
	sys  *syscall.SysProcAttr
}

func setup(t *testing.T, script ...string) *stage {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	s := &stage{t: t, mark: strings.ToLower(rand.Text()[:12])}
	s.play = play{Log: filepath.Join(dir, "log"), StateDir: filepath.Join(dir, "state"), Name: "one", Script: script, Ungrouped: true}
	t.Cleanup(func() {
		s.eventually("the stage is empty", func() bool {
			all := s.processes()
			signalAll(all, syscall.SIGKILL)
			return len(all) == 0
		})
		for _, name := range []string{"one", "two"} { // what a killed guard could not remove
			if l, err := openLockFile(s.play.StateDir, name); err == nil {
				if l.read() == nil && cgroup(l.list.Cgroup).ours() {
					cgroup(l.list.Cgroup).remove()
				}
				l.close()
			}
		}
		if t.Failed() {
			text, _ := os.ReadFile(s.play.Log)
			t.Logf("log:\n%s", text)
		}
	})
	return s
}

// guard starts one.
func (s *stage) guard() *exec.Cmd {
	s.t.Helper()
	text, err := json.Marshal(s.play)
	must(s.t, err)
	argv := append(slices.Clone(s.wrap), exe(s.t))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"=guard", playEnv+"="+string(text), markEnv+"="+s.mark)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = s.sys
	must(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func exe(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	must(t, err)
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stage) eventually(what string, ok func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			text, _ := os.ReadFile(s.play.Log)
			s.t.Fatalf("waited in vain: %s\nprocesses: %v\nlog:\n%s", what, describe(s.processes()), text)
		case <-tick.C:
		}
	}
}

// heard waits for the nth line (from 1) of a kind and returns it.
func (s *stage) heard(who, what string, n int) entry {
	s.t.Helper()
	var found entry
	s.eventually(fmt.Sprintf("%s %s, %d", who, what, n), func() bool {
		all := s.said(who, what)
		if len(all) < n {
			return false
		}
		found = all[n-1]
		return true
	})
	return found
}

func (s *stage) said(who, what string) []entry {
	return slices.DeleteFunc(readLog(s.play.Log), func(e entry) bool { return e.Who != who || e.What != what })
}

// processes lists the processes with the mark of this stage in their environment or arguments.
func (s *stage) processes() []process {
	all, _ := listProcesses()
	return slices.DeleteFunc(all, func(p process) bool {
		if p.PID == os.Getpid() || !p.live {
			return true
		}
		env, _ := readEnviron(p.PID)
		args, _ := procfs.Cmdline(p.PID)
		return !bytes.Contains(env, []byte(markEnv+"="+s.mark+"\x00")) && !bytes.Contains(args, []byte(s.mark))
	})
}

// tasks lists the processes that a driver process or its descendants started.
func (s *stage) tasks(notThese ...int) []process {
	return slices.DeleteFunc(s.processes(), func(p process) bool { return slices.Contains(notThese, p.PID) })
}

// settled reports whether every process of the corpus has executed its program. Before that, a process has another name.
func settled(tasks []process) bool {
	names := map[string]int{}
	for _, p := range tasks {
		names[p.name]++
	}
	return len(tasks) == corpusSize && names["sleep"] == corpusSleeps && names["sh"] == 1 && names["exe"] == 1 && names["env"] == 0
}

func (s *stage) corpusRuns(guard *exec.Cmd, others ...int) []process {
	s.t.Helper()
	var tasks []process
	s.eventually("the corpus runs", func() bool {
		tasks = s.tasks(append(others, guard.Process.Pid)...)
		return settled(tasks)
	})
	return tasks
}

// cleared reports whether a process has nothing of a stage in its environment.
func (s *stage) cleared(p process) bool {
	env, _ := readEnviron(p.PID)
	return !bytes.Contains(env, []byte(s.mark))
}

func (s *stage) gone(tasks []process) {
	s.t.Helper()
	for _, p := range tasks {
		if p.alive() {
			s.t.Errorf("%v is alive", p)
		}
	}
}

// levels runs a test with each containment this machine has.
func levels(t *testing.T, test func(t *testing.T, ungrouped bool)) {
	t.Helper()
	t.Run("subreaper", func(t *testing.T) { test(t, true) })
	t.Run("cgroup", func(t *testing.T) {
		c, err := makeCgroup()
		if err != nil {
			t.Skipf("no writable cgroup v2: %v", err)
		}
		c.remove()
		test(t, false)
	})
}

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no process %d", pid)
	}
	must(t, syscall.Kill(pid, sig))
}

// halt stops a guard, a child of this process, and waits until it is stopped, so that it does not see the next step of the test.
func halt(t *testing.T, g *exec.Cmd) {
	t.Helper()
	kill(t, g.Process.Pid, syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(g.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the guard did not stop: %v, %v", status, err)
	}
}

func TestRun_ReplacesAKilledDriverProcess(t *testing.T) {
	t.Parallel()
	levels(t, func(t *testing.T, ungrouped bool) {
		s := setup(t, "corpus")
		s.play.Ungrouped = ungrouped
		g := s.guard()
		first := s.heard("driver", "ready", 1)
		want := map[bool]string{true: "subreaper", false: "cgroup"}[ungrouped]
		if got := s.heard("driver", "attached", 1); got.Containment != want || len(got.Workers) != 0 {
			t.Errorf("attached with containment %q, replacing %v", got.Containment, got.Workers)
		}
		tasks := s.corpusRuns(g, first.PID)
		kill(t, first.PID, syscall.SIGKILL)
		next := s.heard("driver", "attached", 2)
		s.gone(tasks)
		if !slices.Equal(next.Workers, first.Workers) {
			t.Errorf("replaces %v, want %v", next.Workers, first.Workers)
		}
		if e := s.heard("guard", "ended", 1); e.Code != 128+9 {
			t.Errorf("ended with %d, want 137", e.Code)
		}
	})
}

// This test does not run in parallel with others, because it compares instants.
func TestRun_KillsAFrozenDriverProcessBeforeItsDeadline(t *testing.T) {
	levels(t, func(t *testing.T, ungrouped bool) {
		s := setup(t, "corpus", "deadline=6s")
		s.play.Limits.Margin = 2 * time.Second
		s.play.Ungrouped = ungrouped
		g := s.guard()
		ready := s.heard("driver", "ready", 1)
		tasks := s.corpusRuns(g, ready.PID)
		kill(t, ready.PID, syscall.SIGHUP)
		ready = s.heard("driver", "armed", 1)
		kill(t, ready.PID, syscall.SIGSTOP)
		overdue := s.heard("guard", "overdue", 1)
		if !strings.Contains(overdue.Err, "without a sign of life from the database, or it was frozen") {
			t.Errorf("overdue: %s", overdue.Err)
		}
		ended := s.heard("guard", "ended", 1)
		s.gone(tasks)
		if err := syscall.Kill(ready.PID, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the driver process is there: %v", err)
		}
		if ended.At > ready.Deadline {
			t.Errorf("all was dead %v after the deadline", ended.At-ready.Deadline)
		}
		t.Logf("killing began %v before the deadline and took %v", ready.Deadline-overdue.At, ended.At-overdue.At)
	})
}

func TestRun_AFrozenGuardHearsBeforeItKills(t *testing.T) {
	s := setup(t, "deadline=100ms", "renew")
	g := s.guard()
	ready := s.heard("driver", "ready", 1)
	halt(t, g)
	kill(t, ready.PID, syscall.SIGHUP)
	s.heard("driver", "renewed", 1) // when the deadline before had passed
	kill(t, g.Process.Pid, syscall.SIGCONT)
	s.eventually("the guard judges", func() bool {
		return len(s.said("driver", "answered"))+len(s.said("guard", "overdue")) > 0
	})
	if over := s.said("guard", "overdue"); len(over) > 0 {
		t.Errorf("a healthy driver process was killed: %v", over)
	}
}

func TestRun_KillsAfterBothWereFrozen(t *testing.T) {
	s := setup(t, "deadline=100ms")
	g := s.guard()
	ready := s.heard("driver", "ready", 1)
	halt(t, g)
	kill(t, ready.PID, syscall.SIGHUP)
	armed := s.heard("driver", "armed", 1)
	kill(t, ready.PID, syscall.SIGSTOP)
	s.eventually("the deadline passes", func() bool { return boottime.Now() > armed.Deadline })
	kill(t, ready.PID, syscall.SIGCONT)
	kill(t, g.Process.Pid, syscall.SIGCONT)
	if e := s.heard("guard", "overdue", 1); e.Err != errDeadline.Error() {
		t.Errorf("overdue: %s", e.Err)
	}
	s.heard("driver", "attached", 2)
}

func TestRun_LeavesAloneWhoExtends(t *testing.T) {
	s := setup(t, "extend")
	s.guard()
	s.heard("driver", "extended", 1)
	if over := s.said("guard", "overdue"); len(over) > 0 {
		t.Errorf("killed: %v", over)
	}
}

func TestRun_KillsWhoDoesNotAttach(t *testing.T) {
	s := setup(t, "never-attach")
	s.play.Limits.Attach = 300 * time.Millisecond
	s.guard()
	s.heard("driver", "silent", 2)
	if e := s.heard("guard", "overdue", 1); e.Err != errNotAttached.Error() {
		t.Errorf("overdue: %s", e.Err)
	}
}

func TestRun_KillsWhoIsNotUnderstood(t *testing.T) {
	s := setup(t, "babble")
	s.guard()
	if e := s.heard("guard", "overdue", 1); !strings.Contains(e.Err, "what?") {
		t.Errorf("overdue: %s", e.Err)
	}
	s.heard("driver", "attached", 2)
}

func TestRun_ForwardsSignalsAndExitsWithTheCode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		script []string
		sent   []syscall.Signal
		code   int
	}{
		{"drain", nil, []syscall.Signal{syscall.SIGTERM}, 11},
		{"at once", []string{"signals=2"}, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, 12},
		{"hangup", nil, []syscall.Signal{syscall.SIGHUP}, 11},
		{"third kills", []string{"signals=9"}, []syscall.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGINT}, 128 + 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.sent[0] == syscall.SIGHUP && signal.Ignored(syscall.SIGHUP) {
				t.Skip("these tests run under nohup: a guard then ignores SIGHUP, as it should")
			}
			s := setup(t, append(test.script, "corpus")...)
			g := s.guard()
			tasks := s.corpusRuns(g, s.heard("driver", "ready", 1).PID)
			for n, sig := range test.sent {
				kill(t, g.Process.Pid, sig)
				if n < 2 {
					s.heard("driver", sig.String(), 1+countOf(test.sent[:n], sig))
				}
			}
			_ = g.Wait()
			if got := g.ProcessState.ExitCode(); got != test.code {
				t.Errorf("exit code %d, want %d", got, test.code)
			}
			s.gone(tasks)
			if n := len(s.said("driver", "attached")); n != 1 {
				t.Errorf("%d driver processes, want 1", n)
			}
		})
	}
}

func countOf(all []syscall.Signal, sig syscall.Signal) int {
	n := 0
	for _, s := range all {
		if s == sig {
			n++
		}
	}
	return n
}

func TestRun_EndsWithADriverProcessThatEndedOnPurpose(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		script string
		final  []int
		code   int
	}{{"exit=0", nil, 0}, {"exit=6", []int{6}, 6}} {
		t.Run(test.script, func(t *testing.T) {
			s := setup(t, test.script, "corpus")
			s.play.Final = test.final
			g := s.guard()
			_ = g.Wait()
			if got := g.ProcessState.ExitCode(); got != test.code {
				t.Errorf("exit code %d, want %d", got, test.code)
			}
			if left := s.processes(); len(left) != 0 {
				t.Errorf("left behind: %v", describe(left))
			}
		})
	}
}

func TestRun_WaitsLongerAndLongerForOneThatKeepsFailing(t *testing.T) {
	s := setup(t, "exit=1")
	s.play.Limits.MaxDelay = 400 * time.Millisecond
	g := s.guard()
	s.heard("guard", "delayed", 4)
	kill(t, g.Process.Pid, syscall.SIGTERM)
	_ = g.Wait()
	all := readLog(s.play.Log)
	if all[0].What != "started" || all[2].What != "ended" || all[3].What != "started" {
		t.Errorf("the first successor does not start at once: %v", all[:4])
	}
	var ended []time.Duration
	for _, e := range s.said("guard", "ended") {
		ended = append(ended, e.At)
	}
	if len(ended) < 5 {
		t.Fatalf("%d ends", len(ended))
	}
}

func TestRun_ThePauseStartsAnewAfterAHealthyWhile(t *testing.T) {
	s := setup(t)
	s.play.Limits.Healthy = time.Millisecond
	s.guard()
	for n := range 4 {
		kill(t, s.heard("driver", "ready", n+1).PID, syscall.SIGKILL)
	}
	s.heard("driver", "ready", 5)
	if late := s.said("guard", "delayed"); len(late) > 0 {
		t.Errorf("delayed: %v", late)
	}
}

func TestRun_ASurvivorOfSIGKILLBlocksTheSuccessor(t *testing.T) {
	s := setup(t)
	s.play.Ghost = filepath.Join(t.TempDir(), "ghost")
	s.play.Limits.Survive = 50 * time.Millisecond
	s.guard()
	first := s.heard("driver", "ready", 1)
	must(t, os.WriteFile(s.play.Ghost, nil, 0o600))
	kill(t, first.PID, syscall.SIGKILL)
	blocked := s.heard("guard", "blocked", 1)
	if len(blocked.Left) != 1 || !strings.Contains(blocked.Left[0], "ghost") {
		t.Errorf("reported: %v", blocked.Left)
	}
	if n := len(s.said("guard", "started")); n != 1 {
		t.Fatalf("%d driver processes were started, want 1", n)
	}
	must(t, os.Remove(s.play.Ghost))
	if next := s.heard("driver", "attached", 2); !slices.Equal(next.Workers, first.Workers) {
		t.Errorf("replaces %v, want %v", next.Workers, first.Workers)
	}
}

func TestRun_ASurvivorDoesNotKeepAGuardThatWasAskedToStop(t *testing.T) {
	s := setup(t)
	s.play.Ghost = filepath.Join(t.TempDir(), "ghost")
	s.play.Limits.Survive = 50 * time.Millisecond
	must(t, os.WriteFile(s.play.Ghost, nil, 0o600))
	g := s.guard()
	s.heard("driver", "ready", 1)
	kill(t, g.Process.Pid, syscall.SIGTERM)
	_ = g.Wait()
	if e := s.heard("guard", "failed", 1); !strings.Contains(e.Err, errLeft.Error()) {
		t.Errorf("failed with %q", e.Err)
	}
}

func TestRun_KeepsOnlyIDsThatWereNotForgotten(t *testing.T) {
	s := setup(t, "forget")
	s.play.Limits.Healthy = time.Millisecond
	s.guard()
	for n := range 3 {
		ready := s.heard("driver", "ready", n+1)
		kill(t, ready.PID, syscall.SIGKILL)
		if next := s.heard("driver", "attached", n+2); !slices.Equal(next.Workers, ready.Workers) {
			t.Errorf("replaces %v, want %v", next.Workers, ready.Workers)
		}
	}
}

func TestRun_KeepsItsDescriptorsAndGoroutines(t *testing.T) {
	s := setup(t)
	s.play.Limits.Healthy = time.Millisecond
	s.guard()
	const rounds = 8
	for n := range rounds {
		kill(t, s.heard("driver", "ready", n+1).PID, syscall.SIGKILL)
	}
	ends := []entry{s.heard("guard", "ended", 2), s.heard("guard", "ended", rounds)}
	if ends[0].FDs != ends[1].FDs || ends[0].Loops != ends[1].Loops {
		t.Errorf("after 2 driver processes %d descriptors and %d goroutines, after %d %d and %d",
			ends[0].FDs, ends[0].Loops, rounds, ends[1].FDs, ends[1].Loops)
	}
}

func TestRun_NothingOfTheGuardReachesATask(t *testing.T) {
	s := setup(t, "corpus")
	g := s.guard()
	tasks := s.corpusRuns(g, s.heard("driver", "ready", 1).PID)
	for _, p := range tasks {
		env, _ := readEnviron(p.PID)
		if bytes.Contains(env, []byte(marker+"=")) {
			t.Errorf("%v has the variable of driver processes", p)
		}
		files, _ := procfs.Files(p.PID)
		for fd := 3; fd <= 9; fd++ {
			to := files[fd]
			if strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, s.play.StateDir) {
				t.Errorf("%v has descriptor %d: %s", p, fd, to)
			}
		}
	}
}

// This test does not run in parallel with others, because it measures time.
func TestRun_ReplacesInAboutTheTimeOfAStart(t *testing.T) {
	levels(t, replaceOften)
}

func replaceOften(t *testing.T, ungrouped bool) {
	t.Helper()
	const trials = 20
	s := setup(t, "corpus")
	s.play.Ungrouped = ungrouped
	s.play.Limits.Healthy = time.Millisecond
	g := s.guard()
	var took, fresh []time.Duration
	for n := range trials {
		ready := s.heard("driver", "ready", n+1)
		tasks := s.corpusRuns(g, ready.PID)
		killed := boottime.Now()
		fresh = append(fresh, killed-s.heard("guard", "started", n+1).At)
		kill(t, ready.PID, syscall.SIGKILL)
		took = append(took, s.heard("driver", "attached", n+2).At-killed)
		if e := took[n]; e > 300*time.Millisecond {
			ended, started := s.heard("guard", "ended", n+1).At, s.heard("guard", "started", n+2).At
			t.Logf("slow: %v killed, %v ended, %v started", ended-killed, started-ended, killed+e-started)
		}
		s.gone(tasks)
	}
	slices.Sort(took)
	slices.Sort(fresh)
	p50, worst, start := took[trials/2], took[trials-1], fresh[trials/2]
	t.Logf("from kill -9 until the successor is attached, with %d processes gone: p50 %v, max %v; starting it all takes %v", corpusSize, p50, worst, start)
	if p50 > 10*start {
		t.Errorf("p50 %v, more than 10 times the %v of starting it all", p50, start)
	}
}
