package embed

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker/exec"
)

func TestShortages_LowerTheSlotsOfTheWorkerOrRefuseIt(t *testing.T) {
	t.Parallel()
	r, err := New(Config{Database: queue.Config{URL: "postgres://h/d"}, Slots: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()
	processes := exec.Shortage{What: "processes", Has: 27, Needs: 32, Least: 18, Slots: 5, Hint: "raise it"}
	disk := exec.Shortage{What: "bytes", Has: 1, Needs: 2}
	if err := r.heedShortages([]exec.Shortage{processes, disk}); err != nil || r.workerConfig().Slots != 5 {
		t.Errorf("%d slots, %v: want the five that processes are left for", r.workerConfig().Slots, err)
	}
	processes.Has = 9
	if err := r.heedShortages([]exec.Shortage{processes}); err == nil || !strings.Contains(err.Error(), "raise it") {
		t.Errorf("too few processes for a single slot: %v", err)
	}
}
