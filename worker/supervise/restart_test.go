//go:build linux

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/internal/procfs"
)

func TestLink_SeesTheDeathOfItsGuardAndSweeps(t *testing.T) {
	t.Parallel()
	levels(t, func(t *testing.T, ungrouped bool) {
		s := setup(t, "corpus")
		s.play.Ungrouped = ungrouped
		g := s.guard()
		tasks := s.corpusRuns(g, s.heard("driver", "ready", 1).PID)
		killed := boottime.Now()
		kill(t, g.Process.Pid, syscall.SIGKILL)
		gone := s.heard("driver", "gone", 1)
		s.heard("driver", "swept", 1)
		s.gone(tasks)
		t.Logf("the driver process saw it after %v", gone.At-killed)
	})
}

// killBoth gives the guard no moment to clean up.
func killBoth(t *testing.T, g *exec.Cmd, driver int) {
	t.Helper()
	halt(t, g)
	kill(t, driver, syscall.SIGKILL)
	kill(t, g.Process.Pid, syscall.SIGKILL)
	_ = g.Wait()
}

func TestRun_SweepsWhatAnEarlierIncarnationLeft(t *testing.T) {
	t.Parallel()
	levels(t, func(t *testing.T, ungrouped bool) {
		s := setup(t, "corpus")
		s.play.Ungrouped = ungrouped
		g := s.guard()
		first := s.heard("driver", "ready", 1)
		tasks := s.corpusRuns(g, first.PID)
		foreign := s.foreign(first.Workers[0])
		killBoth(t, g, first.PID)
		if ungrouped {
			tasks = slices.DeleteFunc(tasks, s.cleared)
		}
		for _, p := range tasks {
			if !p.alive() {
				t.Fatalf("%v died by itself: nothing is shown", p)
			}
		}
		s.guard()
		next := s.heard("driver", "attached", 2)
		s.gone(tasks)
		if !slices.Equal(next.Workers, first.Workers) {
			t.Errorf("replaces %v, want %v", next.Workers, first.Workers)
		}
		if e := s.heard("guard", "swept", 1); !slices.Equal(e.Workers, first.Workers) {
			t.Errorf("swept %v, want %v", e.Workers, first.Workers)
		}
		for _, p := range foreign {
			if !p.alive() {
				t.Errorf("killed a stranger: %v", p)
			}
		}
	})
}

// foreign starts processes that resemble those of a worker, but are not.
func (s *stage) foreign(id string) []process {
	s.t.Helper()
	var all []process
	for _, env := range []string{Environ(id + "x"), Environ("w-another"), "X" + Environ(id), Environ(id)[:len(Environ(id))-1], ""} {
		cmd := exec.Command("/bin/sleep", "600")
		cmd.Env = []string{env, "NAME=one"}
		must(s.t, cmd.Start())
		s.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		all = append(all, process{identity: identify(cmd.Process.Pid), name: env})
	}
	return all
}

func TestRun_ReplacesNobodyByAListThatDoesNotHold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(text string) string
		told   string
	}{
		{"other boot", replaceBy(`"boot":"`, `"boot":"x`), "another boot"},
		{"other namespace", replaceBy(`"pid_namespace":"`, `"pid_namespace":"x`), "PID namespace"},
		{"no lock file", nil, ""},
		{"garbage", func(string) string { return "hello\n" }, "not understood"},
		{"torn", func(text string) string {
			return strings.TrimRight(text[strings.LastIndex(text[:len(text)-1], "\n")+1:], "\n")
		}, ""},
		{"no ids", func(text string) string { return strings.ReplaceAll(text, `"w-`, `"/`) }, "no worker id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := setup(t, "corpus")
			g := s.guard()
			first := s.heard("driver", "ready", 1)
			tasks := s.corpusRuns(g, first.PID)
			killBoth(t, g, first.PID)
			path := filepath.Join(s.play.StateDir, "worker-one.lock")
			text, err := os.ReadFile(path)
			must(t, err)
			must(t, os.Remove(path))
			if test.change != nil {
				must(t, os.WriteFile(path, []byte(test.change(string(text))), 0o600))
			}
			s.play.Script = nil
			s.guard()
			if next := s.heard("driver", "attached", 2); len(next.Workers) != 0 {
				t.Errorf("replaces %v", next.Workers)
			}
			for _, p := range tasks {
				if !p.alive() {
					t.Errorf("%v was killed", p)
				}
			}
			if test.told != "" && !strings.Contains(s.heard("guard", "ignored", 1).Err, test.told) {
				t.Errorf("ignored: %v", s.said("guard", "ignored"))
			}
		})
	}
}

func replaceBy(old, by string) func(string) string {
	return func(text string) string { return strings.ReplaceAll(text, old, by) }
}

// leave writes the list of an earlier incarnation.
func (s *stage) leave(workers ...string) {
	s.t.Helper()
	l, err := openLockFile(s.play.StateDir, "one")
	must(s.t, err)
	defer l.close()
	must(s.t, l.write(list{host: thisHost(), Workers: workers}))
}

// A copy of the state folder has a lock of its own, and a list of workers that are still alive.
func TestRun_ReplacesNobodyByACopyOfTheStateFolder(t *testing.T) {
	s := setup(t, "corpus")
	g := s.guard()
	first := s.heard("driver", "ready", 1)
	tasks := s.corpusRuns(g, first.PID)
	original := s.play.StateDir
	s.play.StateDir += "-copy"
	if out, err := exec.Command("cp", "-rp", original, s.play.StateDir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	s.play.Script = nil
	s.guard()
	if next := s.heard("driver", "attached", 2); len(next.Workers) != 0 {
		t.Errorf("replaces %v, which live", next.Workers)
	}
	for _, p := range tasks {
		if !p.alive() {
			t.Errorf("%v was killed", p)
		}
	}
	if e := s.heard("guard", "ignored", 1); !strings.Contains(e.Err, "copy") {
		t.Errorf("ignored: %s", e.Err)
	}
}

func TestRun_ReplacesExactlyTheListedIDs(t *testing.T) {
	s := setup(t)
	want := []string{"a", "b", "c"}
	s.leave(want...)
	must(t, os.WriteFile(filepath.Join(s.play.StateDir, "worker-two.lock"), []byte("{}\n"), 0o600))
	s.guard()
	if got := s.heard("driver", "attached", 1); !slices.Equal(got.Workers, want) {
		t.Errorf("replaces %v, want %v", got.Workers, want)
	}
}

func TestRun_TheSecondOfANameWaitsForTheFirst(t *testing.T) {
	s := setup(t)
	first := s.guard()
	s.heard("driver", "ready", 1)
	s.guard()
	if e := s.heard("guard", "waiting", 1); e.PID != first.Process.Pid {
		t.Errorf("waits for %d, want %d", e.PID, first.Process.Pid)
	}
	third := s.guard()
	s.heard("guard", "waiting", 2)
	kill(t, third.Process.Pid, syscall.SIGTERM)
	_ = third.Wait()
	if code := third.ProcessState.ExitCode(); code != 0 {
		t.Errorf("asked to stop while it waits: exit code %d", code)
	}
	if n := len(s.said("driver", "attached")); n != 1 {
		t.Fatalf("%d driver processes at once", n)
	}
	kill(t, first.Process.Pid, syscall.SIGTERM)
	s.heard("driver", "ready", 2)
}

func TestRun_OthersOfAnotherNameDoNotWait(t *testing.T) {
	s := setup(t)
	s.guard()
	s.heard("driver", "ready", 1)
	s.play.Name = "two"
	s.guard()
	s.heard("driver", "ready", 2)
}

func TestRun_WaitsForADriverProcessWithoutGuard(t *testing.T) {
	s := setup(t, "corpus")
	g := s.guard()
	first := s.heard("driver", "ready", 1)
	tasks := s.corpusRuns(g, first.PID)
	s.guard()
	s.heard("guard", "waiting", 1)
	kill(t, g.Process.Pid, syscall.SIGKILL)
	next := s.heard("driver", "attached", 2)
	swept := s.heard("driver", "swept", 1)
	s.gone(tasks)
	if swept.At > next.At || !slices.Equal(next.Workers, first.Workers) {
		t.Errorf("attached at %v after a sweep at %v, replaces %v", next.At, swept.At, next.Workers)
	}
}

func TestRun_EvictsAFrozenDriverProcessWithoutGuard(t *testing.T) {
	s := setup(t, "corpus")
	s.play.Limits.Handover = 500 * time.Millisecond
	g := s.guard()
	first := s.heard("driver", "ready", 1)
	tasks := s.corpusRuns(g, first.PID)
	kill(t, first.PID, syscall.SIGSTOP)
	s.guard()
	s.heard("guard", "waiting", 1)
	kill(t, g.Process.Pid, syscall.SIGKILL)
	_ = g.Wait()
	if e := s.heard("guard", "evicted", 1); e.PID != first.PID {
		t.Errorf("evicted %d, want %d", e.PID, first.PID)
	}
	next := s.heard("driver", "attached", 2)
	s.gone(tasks)
	if !slices.Equal(next.Workers, first.Workers) {
		t.Errorf("replaces %v, want %v", next.Workers, first.Workers)
	}
}

func TestRun_LeavesChildrenFromBeforeAlone(t *testing.T) {
	s := setup(t)
	s.wrap = []string{"/bin/sh", "-c", `sleep 600 & exec "$0"`}
	s.play.Limits.Healthy = time.Millisecond
	g := s.guard()
	first := s.heard("driver", "ready", 1)
	var side []process
	s.eventually("the side car runs", func() bool {
		side = s.tasks(g.Process.Pid, first.PID)
		return len(side) == 1 && side[0].name == "sleep"
	})
	kill(t, first.PID, syscall.SIGKILL)
	s.heard("driver", "ready", 2)
	kill(t, g.Process.Pid, syscall.SIGTERM)
	_ = g.Wait()
	if !side[0].alive() {
		t.Error("a child from before the guard was killed")
	}
}

func TestRun_RefusesToReplaceWhoStartedIt(t *testing.T) {
	s := setup(t)
	s.wrap = []string{"/usr/bin/env", Environ("a")}
	s.leave("a")
	s.guard()
	if e := s.heard("guard", "failed", 1); !strings.Contains(e.Err, "a task of worker a started this process") {
		t.Errorf("failed: %s", e.Err)
	}
}

func TestRun_AsPIDOne(t *testing.T) {
	wrap := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if os.Getuid() != 0 {
		wrap = append(wrap, "--user", "--map-root-user")
	}
	if out, err := exec.Command(wrap[0], append(wrap[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no PID namespace of its own: %v: %s", err, out)
	}
	t.Parallel()
	levels(t, func(t *testing.T, ungrouped bool) {
		s := setup(t, "corpus")
		s.play.Ungrouped = ungrouped
		s.wrap = wrap
		g := s.guard()
		first := s.heard("driver", "ready", 1)
		if e := s.heard("guard", "started", 1); e.PID != first.PID {
			t.Errorf("started %d, ready %d", e.PID, first.PID)
		}
		one, driver := s.outside(1), s.outside(first.PID)
		tasks := s.corpusRuns(g, one, driver)
		kill(t, driver, syscall.SIGKILL)
		next := s.heard("driver", "attached", 2)
		s.gone(tasks)
		if !slices.Equal(next.Workers, first.Workers) {
			t.Errorf("replaces %v, want %v", next.Workers, first.Workers)
		}
		s.eventually("orphans that ended are reaped", func() bool {
			all, err := listProcesses()
			must(t, err)
			return !slices.ContainsFunc(all, func(p process) bool { return p.parent == one && !p.live })
		})
		kill(t, one, syscall.SIGTERM)
		_ = g.Wait()
		if code := g.ProcessState.ExitCode(); code != 11 {
			t.Errorf("exit code %d, want 11", code)
		}
	})
}

// outside returns the PID outside of a PID namespace of a process inside.
func (s *stage) outside(inside int) int {
	s.t.Helper()
	found := 0
	s.eventually(fmt.Sprintf("process %d of the namespace", inside), func() bool {
		for _, p := range s.processes() {
			value, _ := procfs.StatusValue(p.PID, "NSpid")
			if pids := strings.Fields(value); len(pids) == 2 && pids[1] == strconv.Itoa(inside) {
				found = p.PID
			}
		}
		return found != 0
	})
	return found
}

func TestRun_AsAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("all tests ran as one")
	}
	s := setup(t, "corpus")
	s.play.Ungrouped = false
	s.asUser(65534)
	g := s.guard()
	first := s.heard("driver", "ready", 1)
	tasks := s.corpusRuns(g, first.PID)
	kill(t, first.PID, syscall.SIGKILL)
	if next := s.heard("driver", "attached", 2); !slices.Equal(next.Workers, first.Workers) || next.Containment != "subreaper" {
		t.Errorf("replaces %v with containment %s, want %v", next.Workers, next.Containment, first.Workers)
	}
	s.gone(tasks)
	if e := s.heard("guard", "uncontained", 1); e.Err == "" {
		t.Error("does not say why there is no cgroup")
	}
}

func (s *stage) asUser(uid int) {
	s.t.Helper()
	dir := filepath.Dir(s.play.Log)
	must(s.t, os.Chmod(filepath.Dir(dir), 0o755))
	must(s.t, os.Chown(dir, uid, uid))
	s.wrap = []string{copyOf(s.t, dir)}
	s.sys = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
}

// copyOf copies the test binary to where other users can execute it. Another process makes the copy: a child of another test
// could inherit a descriptor of this process, and the kernel does not execute a file that is open for writing.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "exe")
	if out, err := exec.Command("cp", exe(t), path).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v: %s", err, out)
	}
	must(t, os.Chmod(path, 0o755))
	return path
}

// The guard passes the counts of a killed driver process on to the next one, with the reason of the replacement.
func TestRun_HandsCountsOnToTheNextDriverProcess(t *testing.T) {
	s := setup(t, "keep", "deadline=300ms")
	s.guard()
	if first := s.heard("driver", "attached", 1); len(first.Replaced)+len(first.Kept) > 0 {
		t.Errorf("the first begins with %v and %v", first.Replaced, first.Kept)
	}
	kill(t, s.heard("driver", "ready", 1).PID, syscall.SIGKILL)
	second := s.heard("driver", "attached", 2)
	if second.Kept["lost"] != 1 || second.Replaced[WhyDied] != 1 || len(second.Replaced) != 1 {
		t.Errorf("after one that was killed: %v and %v", second.Replaced, second.Kept)
	}
	kill(t, s.heard("driver", "ready", 2).PID, syscall.SIGTERM) // it sets its deadline
	third := s.heard("driver", "attached", 3)
	if third.Kept["lost"] != 2 || third.Replaced[WhyDied] != 1 || third.Replaced[WhyOverdue] != 1 || len(third.Replaced) != 2 {
		t.Errorf("after one that was overdue: %v and %v", third.Replaced, third.Kept)
	}
	for _, e := range s.said("guard", "ended") {
		if e.Last {
			t.Errorf("driver process %d is said to be the last", e.PID)
		}
	}
}

// The guard hangs up before it kills a driver process, which may be quick enough to end in order.
func TestGuard_WhatWasOverdueHasASuccessor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		guard supervisor
		code  int
		last  bool
	}{
		"ended in order":             {supervisor{}, 0, true},
		"ended by a final code":      {supervisor{Config: Config{Final: []int{2}}}, 2, true},
		"crashed":                    {supervisor{}, 1, false},
		"overdue, ended in order":    {supervisor{over: errDeadline}, 0, false},
		"overdue, and asked to stop": {supervisor{over: errDeadline, asked: 1}, 137, true},
	} {
		if last := c.guard.isLast(c.code); last != c.last {
			t.Errorf("%s: last %t", name, last)
		}
	}
}
