package exec

import (
	"context"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/worker"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// nightly makes tests repeat more: `make nightly`.
var nightly = flag.Bool("nightly", false, "start far more processes")

// times returns how often a test tries something.
func times(few, many int) int {
	if *nightly {
		return many
	}
	return few
}

// nastyVariable makes the test binary one of the programs in nasty_test.go.
const nastyVariable = "NASTY"

func TestMain(m *testing.M) {
	if name := os.Getenv(nastyVariable); name != "" {
		nasty(name)
		os.Exit(0)
	}
	verify(m)
}

// testBundle is an executor under test, with a folder of its own.
type testBundle struct {
	*Executor
	dir    string
	worker string // id that its tasks carry
}

func setup(tb testing.TB, change ...func(*Config)) *testBundle {
	tb.Helper()
	c := Config{Dir: tb.TempDir(), EnvInherit: true, WorkerVariable: "OARLOCK_WORKER_ID"}
	for _, f := range change {
		f(&c)
	}
	x, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := x.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &testBundle{Executor: x, dir: c.Dir, worker: suite}
}

// shell returns a task that runs a text in the shell.
func shell(text string) *worker.Task { return task(dagspec.Step{Run: text}) }

// program is a task that runs one of the nasty programs.
func program(name string, args ...string) *worker.Task {
	t := task(dagspec.Step{Command: procfs.Self("exe")})
	t.Body.Command, _ = os.Executable()
	t.Resolved.Args = args
	t.Resolved.Env = map[string]string{nastyVariable: name}
	return t
}

func task(body dagspec.Step) *worker.Task {
	return &worker.Task{
		Run: 41, UID: "u41", DAG: "etl", Step: "load", Attempt: 1, Fence: 7, Key: "41/load/1", Body: &body,
		Resolved: &dagspec.Resolved{Env: map[string]string{}},
		Stdout:   &await.Buffer{}, Stderr: &await.Buffer{}, Started: func() {}, Now: make(chan struct{}),
	}
}

// killedBy sets how a body is ended.
func killedBy(t *worker.Task, signal string, grace time.Duration) *worker.Task {
	t.Body.Kill = &dagspec.Kill{Signal: signal, Grace: dagspec.Duration(grace.Milliseconds())}
	return t
}

func stdout(t *worker.Task) string { return t.Stdout.(*await.Buffer).String() }
func stderr(t *worker.Task) string { return t.Stderr.(*await.Buffer).String() }

// run executes a body to its end.
func (b *testBundle) run(t *testing.T, task *worker.Task) dagrun.Result {
	t.Helper()
	return <-b.begin(t, t.Context(), task)
}

// begin executes a body in the background; the test fails if it takes longer than patience.
func (b *testBundle) begin(t *testing.T, ctx context.Context, task *worker.Task) <-chan dagrun.Result { //nolint:revive // t first, as everywhere
	t.Helper()
	task.Worker = b.worker
	inner := make(chan dagrun.Result, 1)
	go func() { inner <- b.Execute(ctx, task) }()
	result := make(chan dagrun.Result, 1)
	go func() {
		select {
		case r := <-inner:
			result <- r
		case <-time.After(patience):
			t.Errorf("Execute did not return within %s", patience)
			result <- dagrun.Result{Reason: "hung"}
		}
	}()
	return result
}

// carriers counts the living processes with a variable in their environment.
func carriers(t *testing.T, entry string) int {
	t.Helper()
	listed, err := listProcesses()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for pid := range listed {
		environ, _ := procfs.Environ(pid)
		if stat, err := procfs.ReadStat(pid); err == nil && stat.Live && strings.Contains("\x00"+string(environ), "\x00"+entry+"\x00") {
			count++
		}
	}
	return count
}

// alive reports whether a process runs, regardless of its environment.
func alive(pid int) bool {
	stat, err := procfs.ReadStat(pid)
	return err == nil && stat.Live
}

// pidIn reads the pid a body printed after a word.
func pidIn(text, word string) int {
	_, rest, _ := strings.Cut(text, word+"=")
	digits, _, _ := strings.Cut(rest, "\n")
	pid, _ := strconv.Atoi(digits)
	return pid
}
