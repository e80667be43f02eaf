package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// state returns the folder that workers of a bench keep, unless they have a setting for another.
func (b *testBundle) state() string { return filepath.Join(b.dir, "state") }

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-rp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
}

// undisturbed expects a run that began in beginTicking to end in its first drive.
func (b *testBundle) undisturbed(t *testing.T, run queue.RunID) {
	t.Helper()
	b.write(t, "go", "")
	if got, want := b.await(t, run), "succeeded a=succeeded b=succeeded c=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.once(t, run, "start a", "start b#1", "end b#1", "start c")
	if got := b.attempts(t, run, "b"); len(got) > 0 {
		t.Errorf("attempts of b before the last: %v", got)
	}
	if r, err := b.Get(t.Context(), run); err != nil || r.Epoch != 1 {
		t.Errorf("it was driven %d times: %v", r.Epoch, err)
	}
}

func TestStateFolder_ACopyReplacesNobodyWhoLives(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"w1", "w2"} {
		t.Run("started as "+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.worker(t, "w1")
			runs := b.beginTicking(t, 2)
			id, _ := b.driver(t, "w1")
			copied := filepath.Join(b.dir, "copied")
			copyFolder(t, b.state(), copied)
			b.worker(t, name, "state_dir="+copied)
			b.driver(t, name, id)
			if len(carriers(id)) == 0 {
				t.Error("tasks of the first were killed")
			}
			for _, run := range runs {
				b.undisturbed(t, run)
			}
		})
	}
}

// A worker without its state folder goes on, and no other worker takes it for dead.
func TestStateFolder_ThatIsLostReplacesNobodyWhoLives(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.worker(t, "w1")
	runs := b.beginTicking(t, 2)
	id, _ := b.driver(t, "w1")
	if err := os.RemoveAll(b.state()); err != nil {
		t.Fatal(err)
	}
	next := b.enqueue(t, "ticking", nil) // its attempts need work folders
	b.untilSeen(t, next, "tick b#1")
	b.worker(t, "w1") // the lock is a new file, so this worker does not wait
	b.driver(t, "w1", id)
	for _, run := range append(runs, next) {
		b.undisturbed(t, run)
	}
}

func TestStateFolder_TheSecondOfANameWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.worker(t, "w1")
	runs := b.beginTicking(t, 1)
	id, _ := b.driver(t, "w1")
	second := b.worker(t, "w1")
	until(t, "the second waits", func() bool { return second.saw("guard: another worker named") })
	b.undisturbed(t, runs[0])
	if live := b.live(t); live != "w1" {
		t.Errorf("live: %s", live)
	}
	first.leave(t)
	b.driver(t, "w1", id)
	b.await(t, b.enqueue(t, "ticking", nil))
	second.leave(t)
}
