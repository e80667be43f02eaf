//go:build linux

package guard

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

// All of these end by themselves when their file is removed, as it is at the end of a test.
const (
	// A process that is gone before one can look, with another in its place.
	comet = `f() { [ -e "$0" ] || exit; : >"$0.alive"; (f) & exit; }; f`

	// Processes that all start others as fast as they can, within the limit for their user.
	bomb = `ulimit -u 100 || exit 1; exec /bin/sh -c 'f() { while [ -e "$0" ]; do : >"$0.alive"; (f) 2>/dev/null & done; }; f' "$0"`
)

func TestRun_KillsWhatIsGoneBeforeOneCanLook(t *testing.T) {
	s := setup(t, "fork=/bin/sh", "script="+comet)
	s.killsForks()
}

func TestRun_KillsAForkBombWithinItsLimit(t *testing.T) {
	if _, err := exec.LookPath("/bin/bash"); err != nil {
		t.Skip("no shell that sets the limit")
	}
	s := setup(t, "fork=/bin/bash", "script="+bomb)
	if os.Getuid() == 0 { // no limit holds for root
		s.asUser(50_000 + os.Getpid()%10_000)
	}
	s.killsForks()
}

func (s *stage) killsForks() {
	s.t.Helper()
	g := s.guard()
	first := s.heard("driver", "ready", 1)
	alive := s.play.Log + ".alive"
	s.eventually("it forks", func() bool { _, err := os.Stat(alive); return err == nil })
	killed := boottime.Now()
	kill(s.t, first.PID, syscall.SIGKILL)
	ended := s.heard("guard", "ended", 1)
	s.t.Logf("gone after %v", ended.At-killed)
	must(s.t, os.Remove(alive))
	s.heard("driver", "attached", 2)
	if _, err := os.Stat(alive); err == nil {
		s.t.Error("something of it is left")
	}
	kill(s.t, g.Process.Pid, syscall.SIGTERM)
	_ = g.Wait()
}
