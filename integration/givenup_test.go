package integration

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// TestRun_LeavesNoRunBehind ends `oarlock run` at once, by a second TERM, while its run is parked or begins its handlers.
// A signal to a process group often arrives twice.
func TestRun_LeavesNoRunBehind(t *testing.T) {
	t.Parallel()
	const trials = 10
	b := setup(t)
	var commands []*process
	for name, source := range map[string]string{
		"park": "name: park\nsteps: [{id: a, action: approval}]\n",
		"exit": "name: exit\nhandler_on: {exit: {run: sleep 60}}\nsteps: [{id: a, action: approval}]\n",
	} {
		file := filepath.Join(b.dir, name+".yaml")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		for range trials / 2 {
			commands = append(commands, b.start(t, []string{"state_dir=" + filepath.Join(b.dir, "state"), "database_url=" + b.db.URL}, "run", file))
		}
	}
	until(t, "all runs are parked", func() bool { return len(b.in(t, "waiting")) == trials })
	for _, c := range commands {
		signal(t, syscall.SIGTERM, c.Process.Pid)
		until(t, "it has heard", func() bool { return c.saw("canceling run") })
		signal(t, syscall.SIGTERM, c.Process.Pid)
	}
	for _, c := range commands {
		c.exit(t)
	}
	until(t, "all runs are canceled", func() bool { return len(b.in(t, "canceled")) == trials })
}

// in returns the runs in a state.
func (b *testBundle) in(t *testing.T, state string) []queue.Run {
	t.Helper()
	page, err := b.List(t.Context(), queue.Filter{States: []string{state}})
	if err != nil {
		t.Fatal(err)
	}
	return page.Runs
}
