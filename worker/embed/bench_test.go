package embed_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/cmd/oarlock-bench/baseline"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/embed"
	"github.com/oarlock-dev/oarlock/worker/exec"
)

const (
	chainRuns  = 2000
	chainSteps = 10
)

// chain is a DAG of steps one after the other.
func chain(name, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nsteps:\n", name)
	for i := range chainSteps {
		fmt.Fprintf(&b, "  - {id: s%d, %s", i, body)
		if i > 0 {
			fmt.Fprintf(&b, ", depends: [s%d]", i-1)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// BenchmarkChains enqueues runs of ten steps and waits until all are over, with one embedded worker; beside it the bare
// loop drives as many that are claimed already.
func BenchmarkChains(b *testing.B) {
	for name, body := range map[string]string{"noop": "action: noop", "function": "action: nothing"} {
		b.Run(name, func(b *testing.B) {
			bench := setup(b)
			bench.put(b, chain("chain", body))
			bench.start(b, embed.Config{Slots: 512}, func(r *embed.Rig) {
				r.Handle("nothing", func(context.Context, *worker.Task) (worker.Outputs, error) { return nil, nil })
			})
			loop, err := baseline.New(b.Context(), bench.db.Conn(b))
			if err != nil {
				b.Fatal(err)
			}
			var took, bare time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := bench.EnqueueMany(b.Context(), queue.Bulk{DAG: "chain", Params: make([]any, chainRuns)}); err != nil {
					b.Fatal(err)
				}
				bench.awaitAll(b)
				took += time.Since(start)
				limit, err := loop.Chains(b.Context(), chainRuns, chainSteps)
				if err != nil {
					b.Fatal(err)
				}
				bare += limit
			}
			b.ReportMetric(bare.Seconds()/took.Seconds(), "of-bare")
			b.ReportMetric(float64(b.N*chainRuns*chainSteps)/took.Seconds(), "steps/s")
		})
	}
}

const (
	commandRuns  = 1000
	commandSlots = 16
)

// BenchmarkCommands runs `true` as the only step of many runs; the bare loop beside it writes the same rows, and makes the
// system calls that no executor can do without: a work folder, the two small files, two pipes, a process group; it has as
// many runs at once as the worker has slots.
func BenchmarkCommands(b *testing.B) {
	bench := setup(b)
	bench.put(b, "name: nothing\nsteps: [{id: a, command: /bin/true}]\n")
	memory := inMemory(b)
	bench.start(b, embed.Config{Slots: commandSlots, Commands: &exec.Config{Dir: b.TempDir(), RunDir: memory}}, nil)
	loop, err := baseline.New(b.Context(), bench.db.Conn(b))
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	loop.AtOnce = commandSlots
	loop.Body = func() {
		if err := baseline.Command(dir, memory); err != nil {
			b.Error(err)
		}
	}
	var took, bare time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := bench.EnqueueMany(b.Context(), queue.Bulk{DAG: "nothing", Params: make([]any, commandRuns)}); err != nil {
			b.Fatal(err)
		}
		bench.awaitAll(b)
		took += time.Since(start)
		limit, err := loop.Chains(b.Context(), commandRuns, 1)
		if err != nil {
			b.Fatal(err)
		}
		bare += limit
	}
	b.ReportMetric(bare.Seconds()/took.Seconds(), "of-bare")
	b.ReportMetric(float64(b.N*commandRuns)/took.Seconds(), "commands/s")
}

func inMemory(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "oarlock-rig-*")
	if err != nil {
		return b.TempDir()
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

type bench struct {
	*queue.Store
	db *pgtest.DB
}

func setup(tb testing.TB) *bench {
	tb.Helper()
	db := pgtest.New(tb)
	store, err := queue.Open(tb.Context(), queue.Config{URL: db.URL})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(store.Close)
	return &bench{store, db}
}

func (b *bench) put(tb testing.TB, source string) {
	tb.Helper()
	spec, err := dagspec.Parse("test.yaml", []byte(source))
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := b.PutDAG(tb.Context(), spec, source, "test.yaml"); err != nil {
		tb.Fatal(err)
	}
}

func (b *bench) start(tb testing.TB, c embed.Config, change func(*embed.Rig)) *embed.Rig {
	tb.Helper()
	if c.Database.Pool == nil {
		c.Database.URL = b.db.URL
	}
	c.Folder = tb.TempDir()
	r, err := embed.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(context.WithoutCancel(tb.Context())) }()
	tb.Cleanup(func() {
		r.StopNow()
		if err := <-ended; err != nil {
			tb.Errorf("worker: %v", err)
		}
	})
	return r
}

// awaitAll waits until the last of many runs is over, without asking for each: that would be part of what is measured.
func (b *bench) awaitAll(tb testing.TB) {
	tb.Helper()
	for {
		page, err := b.List(tb.Context(), queue.Filter{States: []string{"queued", "running", "waiting", "paused"}, Limit: 1})
		if err != nil {
			tb.Fatal(err)
		}
		if len(page.Runs) == 0 {
			return
		}
		if _, err := b.Await(tb.Context(), page.Runs[0].ID); err != nil {
			tb.Fatal(err)
		}
	}
}
