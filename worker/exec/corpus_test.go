package exec

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
)

// This file has misbehaviour of bodies that the other files of this package do not cover. TestMain checks for all tests together
// that no goroutine, file or process is left.

// counter is the fastest possible log.
type counter struct{ bytes atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}

func TestCorpus_ReadsAFloodToItsLastByte(t *testing.T) {
	t.Parallel()
	x := setup(t)
	out, err := &counter{}, &counter{}
	task := shell("head -c 134217728 /dev/zero >&2 & head -c 134217728 /dev/zero; wait")
	task.Stdout, task.Stderr = out, err
	begun := time.Now()
	got := x.run(t, task)
	if want := int64(128 << 20); got.Kind != dagrun.KindNone || out.bytes.Load() != want || err.bytes.Load() != want {
		t.Errorf("got %+v, %d and %d bytes, want %d of each", got, out.bytes.Load(), err.bytes.Load(), want)
	}
	t.Logf("%.0f MB/s", 2*float64(128<<20)/1e6/time.Since(begun).Seconds())
}

func TestCorpus_ReadsALineOfTenMegabytes(t *testing.T) {
	t.Parallel()
	const length = 10_000_000
	x := setup(t)
	task := shell(`head -c 10000000 /dev/zero | tr '\0' x`)
	if got := x.run(t, task); got.Kind != dagrun.KindNone || stdout(task) != strings.Repeat("x", length) {
		t.Errorf("got %+v and %d bytes", got, len(stdout(task)))
	}
}

// The bodies run a hundred at a time, since a machine may not hold all of them.
func TestCorpus_OutlivesABodyOfManyProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts thousands of processes")
	}
	hundreds := times(20, 100)
	inBoth(t, func(t *testing.T, change func(*Config)) {
		x, tag := tagged(t, change)
		task := shell(fmt.Sprintf(`
i=0
while [ $i -lt %d ]; do
	j=0
	while [ $j -lt 100 ]; do
		/bin/true &
		j=$((j+1))
	done
	wait
	i=$((i+1))
done
echo $((i*j))`, hundreds))
		task.Worker = x.worker
		if got := x.Execute(t.Context(), task); got.Kind != dagrun.KindNone || stdout(task) != fmt.Sprintf("%d\n", 100*hundreds) { // there is no limit of time
			t.Errorf("got %+v, %q: %s", got, stdout(task), stderr(task))
		}
		if left := carriers(t, tag); left > 0 {
			t.Errorf("%d processes are left", left)
		}
	})
}

func TestCorpus_RemembersNothingOfBodiesInARow(t *testing.T) {
	t.Parallel()
	x := setup(t)
	for i := range times(100, 1000) {
		if got := x.run(t, shell("true")); got.Kind != dagrun.KindNone {
			t.Fatalf("body %d: got %+v", i, got)
		}
	}
	if n := x.owned(); n > 0 {
		t.Errorf("of bodies that are over the tracker remembers %d processes", n)
	}
	x.onlyFree(t)
}

// owned counts the processes that belong to a body by the tracker.
func (b *testBundle) owned() (n int) {
	b.tracker.mu.Lock()
	defer b.tracker.mu.Unlock()
	for _, id := range b.tracker.known {
		if id.owner != "" {
			n++
		}
	}
	return n
}

func TestCorpus_EndsAParentThatWaitsForNoneOfItsChildren(t *testing.T) {
	inBoth(t, func(t *testing.T, change func(*Config)) {
		for name, want := range map[string]dagrun.Result{
			"zombies":      {Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true, Reason: "killed by SIGTERM"},
			"zombies-deaf": {Kind: dagrun.KindSignal, Signal: 9, ExitCode: 137, HasExit: true, Reason: "killed by SIGKILL"},
			"zombies-end":  {HasExit: true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				x, tag := tagged(t, change)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				grace := time.Hour
				if name == "zombies-deaf" {
					grace = 20 * time.Millisecond
				}
				task := killedBy(program(name), "SIGTERM", grace)
				result := x.begin(t, ctx, task)
				await.True(t, "its children are zombies", func() bool { return pidIn(stdout(task), "zombies") == stormOf })
				if name != "zombies-end" {
					cancel()
				}
				if got := <-result; got != want || carriers(t, tag) > 0 {
					t.Errorf("got %+v, want %+v; %d left", got, want, carriers(t, tag))
				}
			})
		}
	})
}

func TestCorpus_KillsABodyThatNeverReadsItsStdin(t *testing.T) {
	t.Parallel()
	x := setup(t)
	large := strings.Repeat("0123456789", 1_000_000)
	file := t.TempDir() + "/in"
	if err := os.WriteFile(file, []byte(large), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]dagspec.Resolved{"text": {Stdin: &large}, "file": {StdinFile: file}} {
		ctx, cancel := context.WithCancel(t.Context())
		task := killedBy(shell("echo ready; exec sleep 600"), "SIGTERM", time.Hour)
		task.Resolved = &in
		result := x.begin(t, ctx, task)
		await.True(t, "it sleeps", func() bool { return stdout(task) == "ready\n" })
		cancel()
		if got := <-result; got.Kind != dagrun.KindSignal || got.Signal != 15 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestCorpus_PassesLinesInVariables(t *testing.T) {
	t.Parallel()
	task := shell("")
	const text = "\none\n\ttwo = 2\r\n\n\xff\x01'\"$HOME`\n"
	task.Resolved.Env = map[string]string{"LINES": text}
	task.Secrets = map[string]string{"KEY": text}
	task.Params = map[string]any{"doc": text}
	env := printed(t, setup(t, func(c *Config) { c.Env = map[string]string{"OWN": text} }), task)
	for _, name := range []string{"LINES", "KEY", "PARAM_DOC", "OWN"} {
		if env[name] != text {
			t.Errorf("%s is %q, want %q", name, env[name], text)
		}
	}
}
