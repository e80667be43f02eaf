package exec

import (
	"errors"
	"os/exec"
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
