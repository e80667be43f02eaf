//go:build linux

package supervise

import (
	"os"
	"syscall"
	"testing"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

// All of these end by themselves when their file is removed, as it is at the end of a test.
const (
	// A process that is gone before one can look, with another in its place.
	comet = `f() { [ -e "$0" ] || exit; : >"$0.alive"; (f) & exit; }; f`

	// Processes that all start others as fast as they can, four deep and three wide. The bound is their own: not every
	// kernel that a test may run on keeps to the limit of a user.
	bomb = `f() { : >"$0.alive"; for i in 1 2 3; do [ "$1" = 0 ] || (f $(($1 - 1))) & done; while [ -e "$0" ]; do sleep 1; done; }; f 4`
)

func TestRun_KillsWhatIsGoneBeforeOneCanLook(t *testing.T) {
	s := setup(t, "fork=/bin/sh", "script="+comet)
	s.killsForks()
}

func TestRun_KillsAForkBomb(t *testing.T) {
	s := setup(t, "fork=/bin/sh", "script="+bomb)
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
