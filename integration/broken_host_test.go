package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/queue"
)

// brokenHost is a way to break the host of one worker, and to repair it.
type brokenHost struct {
	name     string
	within   func(t *testing.T, b *testBundle) []string // starts the worker in a broken place; nil: it starts like any other
	settings func(t *testing.T, b *testBundle) []string
	breaks   func(t *testing.T, b *testBundle, driver int) (mend func())
	reason   string // the reason that the worker reports
	dies     string // the error of Go when it dies of the same fault; "": it does not die
}

// brokenRuns are many more than the slots of both workers.
const brokenRuns = 40

// A worker on a broken host does nothing and reports why, and the other worker does everything. Once the host is
// repaired, the worker works again.
func TestBrokenHost_LeavesItsRunsToTheOthers(t *testing.T) {
	t.Parallel()
	for _, host := range []brokenHost{
		{"no room for work folders", nil, ownDisk, noInodes, "no space left on device (state_dir ", ""},
		{"no room in memory", smallMemory, nil, fullMemory, "no space left on device (temporary files in /dev/shm/", ""},
		{"no descriptors", fewDescriptors, nil, noDescriptors, "too many open files", ""},
		{"no processes", asNobody, nil, noProcesses, "resource temporarily unavailable (the worker's user or its cgroup has too many processes", "failed to create new OS thread"},
	} {
		t.Run(host.name, func(t *testing.T) {
			t.Parallel()
			if os.Getuid() != 0 {
				t.Skip("breaking a host takes root")
			}
			host.play(t)
		})
	}
}

func (h *brokenHost) play(t *testing.T) {
	b := setup(t)
	b.put(t, "name: short\nsteps: [{id: a, run: sleep 0.05}]\n")
	bad := h.worker(t, b)
	_, driver := b.driver(t, "bad")
	b.worker(t, "good", "slots=8")
	b.driver(t, "good")
	mend := h.breaks(t, b, driver)
	runs, err := b.EnqueueMany(t.Context(), queue.Bulk{DAG: "short", Params: make([]any, brokenRuns)})
	if err != nil {
		t.Fatal(err)
	}
	h.told(t, b, bad)
	for _, run := range runs {
		if got := b.await(t, run); got != "succeeded a=succeeded" {
			t.Errorf("run %d: %s", run, got)
		}
	}
	mend()
	until(t, "the worker is ready again", func() bool { return strings.TrimSpace(bad.page(t, "/readyz")) == "ok" })
	b.worksAlone(t, "bad")
}

// told waits until the worker on the broken host reports in every place why it does nothing.
func (h *brokenHost) told(t *testing.T, b *testBundle, bad *process) {
	t.Helper()
	died := func() bool { return h.dies != "" && bad.saw(h.dies) }
	until(t, "the worker says that it is not ready", func() bool { return strings.Contains(bad.page(t, "/readyz"), h.reason) || died() })
	until(t, "others can see it", func() bool {
		workers, err := b.Workers(t.Context())
		return err == nil && slices.ContainsFunc(workers, func(w queue.WorkerInfo) bool { return w.Name == "bad" && strings.Contains(w.Unfit, h.reason) }) || died()
	})
	if !bad.saw("claims nothing until its host can start tasks") && !died() {
		t.Error("the worker does not log why it claims nothing")
	}
}

// worker starts the worker on the host that is about to break.
func (h *brokenHost) worker(t *testing.T, b *testBundle) *process {
	t.Helper()
	settings := []string{"slots=4", "listen=127.0.0.1:0"}
	if h.settings != nil {
		settings = append(settings, h.settings(t, b)...)
	}
	if h.within != nil {
		b.within = h.within(t, b)
		defer func() { b.within = nil }()
	}
	return b.worker(t, "bad", settings...)
}

// worksAlone drains the other workers and expects this one to end a run.
func (b *testBundle) worksAlone(t *testing.T, name string) {
	t.Helper()
	if _, err := b.DrainWorker(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	until(t, "no other worker is live", func() bool { return b.live(t) == name })
	if got := b.await(t, b.enqueue(t, "short", nil)); got != "succeeded a=succeeded" {
		t.Errorf("alone: %s", got)
	}
}

func diskOf(b *testBundle) string { return filepath.Join(b.dir, "disk") }

// ownDisk gives a worker a small disk for its state.
func ownDisk(t *testing.T, b *testBundle) []string {
	t.Helper()
	disk := diskOf(b)
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("oarlock", disk, "tmpfs", 0, "nr_inodes=256,mode=700"); err != nil {
		t.Skipf("a small disk takes more than root here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	return []string{"state_dir=" + disk}
}

// noInodes uses up the inodes of that disk.
func noInodes(t *testing.T, b *testBundle, _ int) func() {
	t.Helper()
	filler := filepath.Join(diskOf(b), "filler")
	var err error
	for i := 0; err == nil; i++ {
		err = os.MkdirAll(filepath.Join(filler, fmt.Sprint(i)), 0o700)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return func() { os.RemoveAll(filler) }
}

// smallMemory starts a worker that has a small /dev/shm of its own.
func smallMemory(t *testing.T, _ *testBundle) []string {
	t.Helper()
	within := []string{"unshare", "-m", "sh", "-c", `mount -t tmpfs -o size=256k oarlock /dev/shm && exec "$@"`, "sh"}
	if out, err := exec.Command(within[0], append(within[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("a mount of its own takes more than root here: %v: %s", err, out)
	}
	return within
}

func fullMemory(t *testing.T, _ *testBundle, driver int) func() {
	t.Helper()
	filler := procfs.Path(driver, "root/dev/shm/filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("its /dev/shm is not full: %v", err)
	}
	return func() { os.Remove(filler) }
}

func fewDescriptors(*testing.T, *testBundle) []string { return []string{"prlimit", "--nofile=256:256"} }

// noDescriptors lowers a worker's limit to the descriptors it has open, which are too few for a body.
func noDescriptors(t *testing.T, _ *testBundle, driver int) func() {
	t.Helper()
	open, err := procfs.Files(driver)
	if err != nil {
		t.Fatal(err)
	}
	limit(t, driver, fmt.Sprintf("--nofile=%d:", len(open)+2))
	return func() { limit(t, driver, "--nofile=256:") }
}

// limit sets a soft limit of a process, as the user of the process, so it needs no privilege. A process that is gone is
// skipped.
func limit(t *testing.T, pid int, limits string, as ...string) {
	t.Helper()
	args := slices.Concat(as, []string{"prlimit", fmt.Sprintf("--pid=%d", pid), limits})
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil && syscall.Kill(pid, 0) == nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// A driver process that crashed is replaced, though Go's exit status for a crash is that of a wrong command line.
func TestWorker_IsReplacedAfterACrash(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.worker(t, "w1")
	first, pid := b.driver(t, "w1")
	signal(t, syscall.SIGQUIT, pid)
	b.driver(t, "w1", first)
	if !w.saw("SIGQUIT: quit") {
		t.Error("it did not crash")
	}
}

const nobody = 65534

// asNobody starts a worker as a user with a kernel limit on processes, and without access to files of root.
func asNobody(t *testing.T, _ *testBundle) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "oarlock-nobody-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // another user must be able to pass through
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	copied, state := filepath.Join(dir, "oarlock"), filepath.Join(dir, "state")
	if out, err := exec.Command("install", "-m", "755", program, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("install", "-d", "-o", fmt.Sprint(nobody), state).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	become := fmt.Sprintf(`shift; export HOME=%s OARLOCK_STATE_DIR=%[1]s; cd /; exec setpriv --reuid=%d --regid=%[2]d --clear-groups %s "$@"`, state, nobody, copied)
	return []string{"sh", "-c", become, "sh"}
}

func noProcesses(t *testing.T, _ *testBundle, driver int) func() {
	t.Helper()
	user := []string{"setpriv", fmt.Sprintf("--reuid=%d", nobody), fmt.Sprintf("--regid=%d", nobody), "--clear-groups"}
	limit(t, driver, "--nproc=1:", user...)
	return func() { limit(t, driver, "--nproc=4096:", user...) }
}

// A worker refuses slots that its limits can never serve, and warns of limits that are only low.
func TestWorker_ComparesItsSlotsWithTheLimitsOfItsHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.within = []string{"prlimit", "--nofile=128:128"}
	refused := b.worker(t, "refused", "slots=64")
	if code := refused.exit(t); code != 2 {
		t.Errorf("64 slots on 128 descriptors end with %d", code)
	}
	for _, want := range []string{"slots: this machine cannot use all 64", "file descriptors: there are 128", "ulimit -n "} {
		if !refused.saw(want) {
			t.Errorf("it does not say %q", want)
		}
	}
	low := b.worker(t, "low", "slots=20")
	b.driver(t, "low")
	for _, want := range []string{"too low for the slots of this worker", `"has":128`, "ulimit -n "} {
		if !low.saw(want) {
			t.Errorf("it does not say %q", want)
		}
	}
}
