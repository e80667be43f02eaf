//go:build linux

package supervise

import (
	"os"
	"testing"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

func TestRun_TheDriverProcessHasTheNameOfTheProgram(t *testing.T) {
	s := setup(t, "corpus")
	s.guard()
	got, err := procfs.Name(s.heard("driver", "ready", 1).PID)
	must(t, err)
	own, err := procfs.Name(os.Getpid())
	must(t, err)
	if got != own {
		t.Errorf("ps calls it %q, not %q", got, own)
	}
}
