package exec

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/worker"
)

// A goroutine waits for a process that SIGKILL did not end. The result of the attempt is decided before, and does not change.
func TestResult_OfASurvivorIsDecidedBeforeItEnds(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tracker := newProcTracker("", Config{})
	t.Cleanup(tracker.close)
	b := &body{task: &worker.Task{}, pidFD: noPidFD, tree: &tree{tracker: tracker, leader: cmd.Process.Pid}, ended: make(chan struct{})}
	for i := range b.streams {
		s, theirs, err := openStream(nil)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(theirs)
		go s.copy()
		b.streams[i] = s
	}
	survivors := b.end(errors.New("still there"))
	stdin.Close()
	b.watch() // as if the kernel let go of it now
	for range 1000 {
		r := (&attempt{}).result(b, survivors)
		if r.Kind != dagrun.KindSignal || r.Signal != int(unix.SIGKILL) || r.Reason != "still there" {
			t.Fatalf("%+v", r)
		}
	}
}

func TestResult_SaysWhyMemoryWasLacking(t *testing.T) {
	t.Parallel()
	const atLimit, elsewhere, none = "low 0\noom 1\noom_kill 1\n", "low 0\noom 0\noom_kill 1\n", "low 0\noom 0\noom_kill 0\n"
	const limited, unlimited = "killed by SIGKILL: out of memory, the worker allows 4096 bytes", "killed by SIGKILL: out of memory, but not by the worker's resources"
	for name, c := range map[string]struct {
		status unix.WaitStatus
		memory int64
		events string // of the group with the groups in it
		local  string // of the group alone
		want   string // how the reason begins
	}{
		"by the limit":                {unix.WaitStatus(unix.SIGKILL), 4096, atLimit, atLimit, limited},
		"on the host":                 {unix.WaitStatus(unix.SIGKILL), 4096, elsewhere, elsewhere, unlimited},
		"on the host, with no limit":  {unix.WaitStatus(unix.SIGKILL), 0, elsewhere, elsewhere, unlimited},
		"by a limit of the body":      {unix.WaitStatus(unix.SIGKILL), 0, atLimit, atLimit, unlimited},
		"in a group of the body":      {unix.WaitStatus(unix.SIGKILL), 4096, atLimit, none, unlimited},
		"of a process before the end": {unix.WaitStatus(unix.SIGTERM), 4096, atLimit, atLimit, "killed by SIGTERM"},
		"not at all":                  {unix.WaitStatus(unix.SIGKILL), 4096, none, none, "killed by SIGKILL"},
		"without a controller":        {unix.WaitStatus(unix.SIGKILL), 4096, "", "", "killed by SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &attempt{x: &Executor{config: Config{Resources: Resources{Memory: c.memory}}}, cgroup: &cgroup{t.TempDir(), closedDir}}
			for file, text := range map[string]string{"memory.events": c.events, "memory.events.local": c.local} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(a.cgroup.path, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := a.result(&body{status: c.status}, nil)
			if got.Kind != dagrun.KindSignal || !strings.HasPrefix(got.Reason, c.want) || strings.Contains(got.Reason, "memory") != strings.Contains(c.want, "memory") {
				t.Errorf("got %+v %q, want %q", got, got.Reason, c.want)
			}
		})
	}
}
