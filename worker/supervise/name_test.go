//go:build linux

package supervise

import (
	"fmt"
	"os"
	"testing"
)

func TestRun_TheDriverProcessHasTheNameOfTheProgram(t *testing.T) {
	s := setup(t, "corpus")
	s.guard()
	got, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", s.heard("driver", "ready", 1).PID))
	must(t, err)
	own, err := os.ReadFile("/proc/self/comm")
	must(t, err)
	if string(got) != string(own) {
		t.Errorf("ps calls it %q, not %q", got, own)
	}
}
