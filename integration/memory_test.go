package integration

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	heldRuns    = 10_000
	heldMostKiB = 300 << 10
)

// A run that waits costs little: one worker holds ten thousand runs, each with a Go function that blocks.
func TestWorker_HoldsTenThousandRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "name: hold\nsteps: [{id: a, action: hold}]\n")
	runs, err := b.EnqueueMany(t.Context(), queue.Bulk{DAG: "hold", Params: make([]any, heldRuns)})
	if err != nil {
		t.Fatal(err)
	}
	holder := filepath.Join(b.dir, "holder")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", holder, "./testdata/holder")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	w := exec.CommandContext(t.Context(), holder)
	w.Env = []string{"DATABASE_URL=" + b.url, fmt.Sprint("HOLD=", heldRuns), fmt.Sprint("SLOTS=", heldRuns), "FOLDER=" + filepath.Join(b.dir, "work")}
	w.Stderr = &await.Buffer{}
	release, err := w.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	says, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	var now, most int
	if _, err := fmt.Fscan(bufio.NewReader(says), &now, &most); err != nil {
		t.Fatalf("it does not hold them: %v\n%s", err, w.Stderr)
	}
	t.Logf("%d runs: %d MiB resident, %d MiB at most", heldRuns, now>>10, most>>10)
	if most > heldMostKiB {
		t.Errorf("it took %d KiB, more than %d", most, heldMostKiB)
	}
	release.Close()
	if got, want := b.await(t, runs[heldRuns-1]), "succeeded a=succeeded"; got != want {
		t.Errorf("the last run is %s, want %s", got, want)
	}
	_ = w.Process.Kill() // killed without a stop, so its lease must run out
	_ = w.Wait()
}
