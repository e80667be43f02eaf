package integration

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// patience is how long a wait may take on a machine that others use too.
const patience = 40 * time.Second

// nightly makes tests repeat more: `make nightly`.
var nightly = flag.Bool("nightly", false, "try often what is otherwise tried a few times")

// times returns how often a test tries something.
func times(few, many int) int {
	if *nightly {
		return many
	}
	return few
}

// program is the path of the oarlock under test.
var program string

// atOnce is how many tests run side by side, since they mostly wait.
const atOnce = "4"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", atOnce)
	}
	dir, err := os.MkdirTemp("", "oarlock-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program = os.Getenv("OARLOCK_TEST_PROGRAM"); program != "" {
		if _, err := os.Stat(program); err == nil {
			return m.Run()
		}
	}
	program = filepath.Join(dir, "oarlock")
	build := exec.Command("go", "build", "-o", program, "github.com/oarlock-dev/oarlock/cmd/oarlock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// testBundle is a database of its own, with the processes that use it.
type testBundle struct {
	*queue.Store
	db  *pgtest.DB
	url string // for workers: a login with only their role
	dir string

	another string    // an oarlock to start in place of the one under test
	conn    *pgx.Conn // for queries of the test itself; nil: not connected yet
	within  []string  // a command that starts the program in another place
}

func setup(t *testing.T) *testBundle {
	t.Helper()
	if testing.Short() {
		t.Skip("wants a database")
	}
	db := pgtest.New(t)
	return newTestBundle(t, db, db.Login(t, "oarlock_worker"))
}

// setupOn is setup on a server of the test's own, which the test may stop and kill.
func setupOn(t *testing.T, settings map[string]string) (*testBundle, *pgcluster.Node) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server")
	}
	node := pgcluster.Start(t, settings)
	return newTestBundle(t, &pgtest.DB{URL: node.URL()}, node.URL()), node
}

func newTestBundle(t *testing.T, db *pgtest.DB, url string) *testBundle {
	t.Helper()
	b := &testBundle{db: db, url: url, dir: t.TempDir()}
	store, err := queue.Open(t.Context(), queue.Config{URL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	b.Store = store
	b.writeLibrary(t)
	t.Cleanup(func() { b.tell(t) })
	t.Cleanup(b.removeCgroups)
	t.Cleanup(b.check(t))
	return b
}

// leftCgroup matches the cgroups in a lock file.
var leftCgroup = regexp.MustCompile(`"cgroup":"([^"]+)"`)

// removeCgroups removes the cgroups that killed guards could not remove. A cgroup in use stays.
func (b *testBundle) removeCgroups() {
	locks, _ := filepath.Glob(filepath.Join(b.dir, "*", "worker-*.lock"))
	for _, path := range locks {
		text, _ := os.ReadFile(path)
		for _, found := range leftCgroup.FindAllSubmatch(text, -1) {
			folders, _ := filepath.Glob(filepath.Join(string(found[1]), "*"))
			for _, folder := range append(folders, string(found[1])) {
				_ = syscall.Rmdir(folder)
			}
		}
	}
}

// tell prints what happened in a test that failed.
func (b *testBundle) tell(t *testing.T) {
	if !t.Failed() {
		return
	}
	page, err := b.List(context.WithoutCancel(t.Context()), queue.Filter{})
	if err != nil {
		t.Log(err)
	}
	for i := range page.Runs {
		r := &page.Runs[i]
		t.Logf("run %d: %s %s epoch %d on %q", r.ID, r.State, r.Reason, r.Epoch, r.Worker)
		events, _ := b.Events(context.WithoutCancel(t.Context()), r.ID, 0)
		for j := range events {
			e := &events[j]
			t.Logf("  %s %s %s epoch %d %s: %s", e.At.Format("15:04:05.000"), e.Kind, e.Worker, e.Epoch, e.Step, e.Message)
		}
	}
	for _, s := range b.sights(t) {
		if s.What != "tick" {
			t.Logf("  %v: run %d, %v of epoch %d", s.At, s.Run, s, s.Epoch)
		}
	}
}

// check returns a function that checks the database at the end of a test, when its workers are gone.
func (b *testBundle) check(t *testing.T) func() {
	return func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, b.db.URL) // only now, because the test may have changed the server
		if err != nil {
			t.Errorf("check: %v", err)
			return
		}
		defer conn.Close(ctx)
		pgtest.CheckInvariants(t, conn)
	}
}

// put applies a DAG. $DIR in it is the folder of the bench.
func (b *testBundle) put(t *testing.T, source string) {
	t.Helper()
	source = strings.ReplaceAll(source, "$DIR", b.dir)
	spec, err := dagspec.Parse("test.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutDAG(t.Context(), spec, source, "test.yaml"); err != nil {
		t.Fatal(err)
	}
}

func (b *testBundle) enqueue(t *testing.T, dag string, params map[string]any) queue.RunID {
	t.Helper()
	r := queue.Request{DAG: dag}
	if params != nil {
		r.Params = params
	}
	run, err := b.Enqueue(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// await waits for the end of a run, and describes it: its state, and each task as step=state.
func (b *testBundle) await(t *testing.T, run queue.RunID) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := b.Await(ctx, run); err != nil {
		t.Fatalf("run %d is not over: %v\nit is: %s", run, err, b.shown(t, run))
	}
	return b.shown(t, run)
}

// shown describes a run in a line.
func (b *testBundle) shown(t *testing.T, run queue.RunID) string {
	t.Helper()
	r, err := b.Get(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := b.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(r.State)
	for _, task := range tasks {
		name := task.Step
		if task.Item != "" {
			name += "/" + task.Item
		}
		text += fmt.Sprintf(" %s=%s", name, task.State)
	}
	return text
}

// live returns the names of the workers that are live.
func (b *testBundle) live(t *testing.T) string {
	t.Helper()
	workers, err := b.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range workers {
		if workers[i].State == queue.WorkerLive {
			names = append(names, workers[i].Name)
		}
	}
	return strings.Join(names, " ")
}

// until waits for something to come true.
var until = await.True

// driver waits until a worker is live, under an id that is not among those in not. It returns this id and the process id
// of its driver process.
func (b *testBundle) driver(t *testing.T, name string, not ...string) (id string, pid int) {
	t.Helper()
	until(t, "worker "+name+" is live", func() bool {
		workers, err := b.Workers(t.Context())
		if err != nil {
			return false
		}
		for i := range workers {
			w := &workers[i]
			if w.Name == name && w.State == queue.WorkerLive && !slices.Contains(not, w.ID.String()) {
				id, pid = w.ID.String(), w.PID
			}
		}
		return pid != 0
	})
	return id, pid
}

// signal sends a signal to processes, which must exist.
func signal(t *testing.T, sig syscall.Signal, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatalf("signal %v to %d: %v", sig, pid, err)
		}
	}
}

// process is a running oarlock.
type process struct {
	*exec.Cmd
	ended chan struct{}
	code  int
	said  *await.Buffer
}

// worker starts `oarlock worker` under a name, with settings as in its file: slots=2.
func (b *testBundle) worker(t *testing.T, name string, settings ...string) *process {
	t.Helper()
	return b.start(t, append([]string{
		"name=" + name, "state_dir=" + filepath.Join(b.dir, "state"), "database_url=" + b.url, "log_level=debug",
	}, settings...), "worker")
}

// start starts a command with settings, which its environment holds. $NAME=value sets a variable as it is.
func (b *testBundle) start(t *testing.T, settings []string, args ...string) *process {
	t.Helper()
	words := append(append(slices.Clone(b.within), cmp.Or(b.another, program)), args...)
	p := &process{Cmd: exec.Command(words[0], words[1:]...), ended: make(chan struct{}), said: &await.Buffer{}}
	p.Env = append(p.Env, "PATH="+os.Getenv("PATH"), "HOME="+b.dir)
	for _, s := range settings {
		if variable, ok := strings.CutPrefix(s, "$"); ok {
			p.Env = append(p.Env, variable)
			continue
		}
		name, value, _ := strings.Cut(s, "=")
		p.Env = append(p.Env, "OARLOCK_"+strings.ToUpper(name)+"="+value)
	}
	p.Stdout, p.Stderr, p.Dir = p.said, p.said, b.dir
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait()
		p.code = p.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("%s said:\n%s", strings.Join(args, " "), p.said)
		}
	})
	return p
}

// stop ends the process, at first by a request.
func (p *process) stop(t *testing.T) {
	for range 3 {
		_ = p.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.Process.Kill()
		t.Errorf("process %d did not end", p.Process.Pid)
	}
}

// leave asks for the end once, and expects an orderly one.
func (p *process) leave(t *testing.T) {
	t.Helper()
	signal(t, syscall.SIGTERM, p.Process.Pid)
	if code := p.exit(t); code != 0 {
		t.Errorf("process %d ended with %d", p.Process.Pid, code)
	}
}

// exit waits for the end and returns its code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("process %d goes on", p.Process.Pid)
	}
	return p.code
}

// saw reports whether a process has printed a text.
func (p *process) saw(text string) bool { return strings.Contains(p.said.String(), text) }
