package exec

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/worker"
)

func TestExecute_SaysHowABodyEnded(t *testing.T) {
	t.Parallel()
	x := setup(t)
	for _, tt := range []struct {
		name string
		task *worker.Task
		want dagrun.Result
	}{
		{"success", shell("true"), dagrun.Result{HasExit: true}},
		{"exit", shell("exit 3"), dagrun.Result{Kind: dagrun.KindExit, ExitCode: 3, HasExit: true, Reason: "exit 3"}},
		{"the largest", shell("exit 255"), dagrun.Result{Kind: dagrun.KindExit, ExitCode: 255, HasExit: true, Reason: "exit 255"}},
		{"an exit that looks like a signal", shell("exit 137"), dagrun.Result{Kind: dagrun.KindExit, ExitCode: 137, HasExit: true, Reason: "exit 137"}},
		{"-e", shell("false; exit 0"), dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true, Reason: "exit 1"}},
		{"-u", shell("echo $NOT_SET_ANYWHERE"), dagrun.Result{Kind: dagrun.KindExit, ExitCode: 2, HasExit: true, Reason: "exit 2"}},
		{"TERM", shell("kill -TERM $$"), dagrun.Result{Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true, Reason: "killed by SIGTERM"}},
		{"KILL", shell("kill -KILL $$"), dagrun.Result{Kind: dagrun.KindSignal, Signal: 9, ExitCode: 137, HasExit: true, Reason: "killed by SIGKILL"}},
		{"SEGV", shell("kill -SEGV $$"), dagrun.Result{Kind: dagrun.KindSignal, Signal: 11, ExitCode: 139, HasExit: true, Reason: "killed by SIGSEGV"}},
		{"a realtime signal", shell("kill -40 $$"), dagrun.Result{Kind: dagrun.KindSignal, Signal: 40, ExitCode: 168, HasExit: true, Reason: "killed by signal 40"}},
		{"nothing to run", task(dagspec.Step{Action: "noop"}), dagrun.Result{Kind: dagrun.KindConfig, Reason: "the body is neither run nor command"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := x.run(t, tt.task); got != tt.want {
				t.Errorf("got %+v, want %+v; stderr: %s", got, tt.want, stderr(tt.task))
			}
		})
	}
}

func TestExecute_SaysWhyABodyCannotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := dir + "/" + name
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain, script := write("plain", "hello", 0o600), write("script", "#!/no/such/interpreter\n", 0o700)
	nonsense := write("nonsense", "\x01\x02", 0o700)
	if err := os.Symlink("/bin/true", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	x := setup(t, func(c *Config) { c.Deny = []string{"/bin/true", "/usr/bin/true"} })
	for _, tt := range []struct {
		name string
		body dagspec.Step
		args []string
		kind dagrun.FailureKind
		want string
	}{
		{"not in PATH", dagspec.Step{Command: "no-such-program"}, nil, dagrun.KindSpawn, "no-such-program not found on this worker: install the command"},
		{"no such file", dagspec.Step{Command: "/no/such/program"}, nil, dagrun.KindSpawn, "/no/such/program not found on this worker"},
		{"not executable", dagspec.Step{Command: plain}, nil, dagrun.KindSpawn, "is not executable: type chmod +x"},
		{"a folder", dagspec.Step{Command: dir}, nil, dagrun.KindSpawn, "is a folder"},
		{"no interpreter", dagspec.Step{Command: script}, nil, dagrun.KindSpawn, "the interpreter that its first line"},
		{"no program", dagspec.Step{Command: nonsense}, nil, dagrun.KindSpawn, "no #! line"},
		{"denied", dagspec.Step{Command: "true"}, nil, dagrun.KindSpawn, "is denied on this worker"},
		{"denied behind a link", dagspec.Step{Command: dir + "/link"}, nil, dagrun.KindSpawn, "is denied on this worker"},
		{"no working_dir", dagspec.Step{Run: "true", WorkingDir: "/no/such/folder"}, nil, dagrun.KindSpawn, "working_dir /no/such/folder: no such file or directory: make the folder"},
		{"relative working_dir", dagspec.Step{Run: "true", WorkingDir: "src"}, nil, dagrun.KindSpawn, "a relative folder is inside the attempt's own"},
		{"working_dir is a file", dagspec.Step{Run: "true", WorkingDir: plain}, nil, dagrun.KindSpawn, "is not a folder"},
		{"no shell", dagspec.Step{Run: "true", Shell: []string{"/bin/nosh"}}, nil, dagrun.KindSpawn, "/bin/nosh not found"},
		{"large argument", dagspec.Step{Command: "echo"}, []string{strings.Repeat("x", maxValueBytes+1)}, dagrun.KindConfig, "pass the value through stdin"},
		{"NUL in an argument", dagspec.Step{Command: "echo"}, []string{"a\x00b"}, dagrun.KindConfig, "NUL"},
		{"2 MiB of arguments", dagspec.Step{Command: "echo"}, many(64, strings.Repeat("x", maxValueBytes)), dagrun.KindSpawn, "too large together"},
		{"very many arguments", dagspec.Step{Command: "echo"}, many(300_000, "x"), dagrun.KindSpawn, "too large together"},
		{"too much in all", dagspec.Step{Command: "echo"}, many(100, strings.Repeat("x", maxValueBytes)), dagrun.KindSpawn, "too large together"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task := task(tt.body)
			task.Resolved.Args = tt.args
			task.Started = func() { t.Error("said to have started") }
			got := x.run(t, task)
			if got.Kind != tt.kind || !strings.Contains(got.Reason, tt.want) || got.HasExit {
				t.Errorf("got %+v, want %s with %q and no exit code", got, tt.kind, tt.want)
			}
		})
	}
}

func many(n int, text string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = text
	}
	return list
}

func TestExecute_PassesArgumentsUntouched(t *testing.T) {
	t.Parallel()
	task := task(dagspec.Step{Command: "printf"})
	task.Resolved.Args = []string{`%s|`, "", "a b", "$HOME", "`id`", "*", "';", "\n", "ü\xff"}
	x := setup(t)
	if got := x.run(t, task); got.Kind != dagrun.KindNone {
		t.Fatal(got)
	}
	if want := strings.Join(task.Resolved.Args[1:], "|") + "|"; stdout(task) != want {
		t.Errorf("got %q, want %q", stdout(task), want)
	}
}

func TestExecute_RunsTextsOfAnyLength(t *testing.T) {
	t.Parallel()
	x := setup(t)
	for _, size := range []int{0, maxTextArg - 20, maxTextArg - 1, maxTextArg, maxTextArg + 1, 1 << 20} {
		comment := "\n#" + strings.Repeat("x", max(size-20, 0))
		for len("echo done")+len(comment) < size {
			comment += "x"
		}
		task := shell("echo done" + comment)
		if got := x.run(t, task); got.Kind != dagrun.KindNone || stdout(task) != "done\n" {
			t.Errorf("%d bytes: got %+v, %q", size, got, stdout(task))
		}
	}
}

func TestExecute_TakesTheNearestShell(t *testing.T) {
	t.Parallel()
	x := setup(t, func(c *Config) { c.Shell = []string{"/bin/echo", "worker"} })
	for source, want := range map[string]string{
		"steps: [{id: a, run: text}]":                                                    "worker -c text\n",
		"shell: [/bin/echo, dag]\nsteps: [{id: a, run: text}]":                           "dag -c text\n",
		"shell: [/bin/echo, dag]\nsteps: [{id: a, run: text, shell: [/bin/echo, step]}]": "step -c text\n",
	} {
		task := task(compiled(t, source))
		if x.run(t, task); stdout(task) != want {
			t.Errorf("%s: got %q, want %q", source, stdout(task), want)
		}
	}
}

// compiled is the first step of a DAG, as drivers hand it to executors.
func compiled(t *testing.T, source string) dagspec.Step {
	t.Helper()
	spec, err := dagspec.Parse("d.yaml", []byte("name: d\n"+source+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	graph, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return *graph.Step(0).Data.(*dagspec.Step)
}

func TestExecute_StartsOnce(t *testing.T) {
	t.Parallel()
	x := setup(t)
	var count atomic.Int32
	task := shell("true")
	task.Started = func() { count.Add(1) }
	x.run(t, task)
	if count.Load() != 1 {
		t.Errorf("started %d times", count.Load())
	}
}

func TestExecute_StartsNothingThatIsStoppedAlready(t *testing.T) {
	t.Parallel()
	x := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	task := shell("echo started")
	task.Started = func() { t.Error("started") }
	if got := <-x.begin(t, ctx, task); got.Kind != dagrun.KindSpawn || stdout(task) != "" {
		t.Errorf("got %+v, %q", got, stdout(task))
	}
}

func TestExecute_GivesStdin(t *testing.T) {
	t.Parallel()
	x := setup(t)
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/in", []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("0123456789", 150_000)
	for _, tt := range []struct {
		name string
		in   dagspec.Resolved
		want string
	}{
		{"none", dagspec.Resolved{}, ""},
		{"text", dagspec.Resolved{Stdin: new("héllo\n")}, "héllo\n"},
		{"empty", dagspec.Resolved{Stdin: new("")}, ""},
		{"large", dagspec.Resolved{Stdin: &large}, large},
		{"file", dagspec.Resolved{StdinFile: dir + "/in"}, "from a file"},
		{"relative file", dagspec.Resolved{StdinFile: "in"}, "from a file"},
	} {
		task := task(dagspec.Step{Command: "cat", WorkingDir: dir})
		task.Resolved = &tt.in
		if got := x.run(t, task); got.Kind != dagrun.KindNone || stdout(task) != tt.want {
			t.Errorf("%s: got %+v, %d bytes, want %d", tt.name, got, len(stdout(task)), len(tt.want))
		}
	}
	unread := shell("true")
	unread.Resolved.Stdin = &large
	if got := x.run(t, unread); got.Kind != dagrun.KindNone {
		t.Errorf("not reading stdin: got %+v", got)
	}
	for _, file := range []string{"/no/such/file", dir} {
		task := shell("cat")
		task.Resolved.StdinFile = file
		if got := x.run(t, task); got.Kind != dagrun.KindSpawn || !strings.Contains(got.Reason, "stdin file "+file) {
			t.Errorf("%s: got %+v", file, got)
		}
	}
}

func TestExecute_KeepsStdoutAndStderrApartAndWhole(t *testing.T) {
	t.Parallel()
	x := setup(t)
	both := shell("echo out; echo err >&2; printf 'a\\0b'")
	x.run(t, both)
	if stdout(both) != "out\na\x00b" || stderr(both) != "err\n" {
		t.Errorf("got %q and %q", stdout(both), stderr(both))
	}
	const total = 5_000_000
	flood := program("flood")
	flood.Resolved.Env["BYTES"] = "5000000"
	if got := x.run(t, flood); got.Kind != dagrun.KindNone || len(stdout(flood)) != total {
		t.Errorf("got %+v and %d bytes, want %d", got, len(stdout(flood)), total)
	}
}

// stuckWriter is a log that blocks until the test releases it.
type stuckWriter struct {
	await.Buffer
	free chan struct{}
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	<-w.free
	return w.Buffer.Write(p)
}

func TestExecute_LosesNothingToASlowReader(t *testing.T) {
	t.Parallel()
	x := setup(t)
	slow := &stuckWriter{free: make(chan struct{})}
	task := program("flood")
	task.Resolved.Env["BYTES"], task.Stdout = "300000", slow
	started := make(chan struct{})
	task.Started = func() { close(started) }
	result := x.begin(t, t.Context(), task)
	<-started
	select {
	case r := <-result:
		t.Fatalf("ended though nobody had read its output: %+v", r)
	case <-time.After(50 * time.Millisecond):
	}
	close(slow.free)
	if r := <-result; r.Kind != dagrun.KindNone || len(slow.String()) != 300_000 {
		t.Errorf("got %+v and %d bytes", r, len(slow.String()))
	}
}
