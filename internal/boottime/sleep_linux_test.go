package boottime_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

const asked = "OARLOCK_TEST_BOOTTIME"

// A machine that slept has a time since boot ahead of Go's clock. A time namespace simulates that.
func TestNow_CountsSleep(t *testing.T) {
	t.Parallel()
	if os.Getenv(asked) != "" {
		fmt.Println("now:", boottime.Now())
		return
	}
	const slept = 100 * 24 * time.Hour
	cmd := exec.Command("unshare", "--time", "--fork", "--boottime", fmt.Sprint(int(slept.Seconds())), os.Args[0], "-test.run", "CountsSleep", "-test.v")
	cmd.Env = append(os.Environ(), asked+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("no time namespaces here: %v: %s", err, out)
	}
	_, line, _ := strings.Cut(string(out), "now: ")
	line, _, _ = strings.Cut(line, "\n")
	now, err := time.ParseDuration(line)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if now < boottime.Now()+slept/2 {
		t.Errorf("it is %v after boot in a machine that slept for %v", now, slept)
	}
}
