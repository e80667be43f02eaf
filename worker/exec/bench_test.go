package exec

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// BenchmarkSpawn runs a body and, in turn with it, the bare loop around os/exec that copies two pipes; x-bare is the rate
// of the first over that of the second.
func BenchmarkSpawn(b *testing.B) {
	for name, change := range map[string]func(*testing.B, *Config){
		"disk":   func(*testing.B, *Config) {},
		"memory": func(b *testing.B, c *Config) { c.Dir = inMemory(b) },
		"runDir": func(b *testing.B, c *Config) { c.RunDir = inMemory(b) },
		"cgroup": func(b *testing.B, c *Config) { c.Dir, c.Cgroup = inMemory(b), ownCgroup(b) },
	} {
		b.Run(name, func(b *testing.B) {
			x := setup(b, func(c *Config) { change(b, c) })
			var bare, ours time.Duration
			for b.Loop() {
				start := time.Now()
				bareSpawn(b)
				middle := time.Now()
				t := task(dagspec.Step{Command: "/bin/true"})
				t.Stdout, t.Stderr = io.Discard, io.Discard
				if r := x.Execute(b.Context(), t); r.Kind != "" {
					b.Fatal(r)
				}
				bare, ours = bare+middle.Sub(start), ours+time.Since(middle)
			}
			b.ReportMetric(float64(bare)/float64(ours), "x-bare")
		})
	}
}

func inMemory(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "oarlock-proc-*")
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func ownCgroup(b *testing.B) string {
	b.Helper()
	own := OwnCgroup()
	if own == "" {
		b.Skip("this machine lets nobody make cgroups here")
	}
	return own
}

func bareSpawn(b *testing.B) {
	b.Helper()
	cmd := exec.Command("/bin/true")
	out, _ := cmd.StdoutPipe()
	errs, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, errs)
	}()
	_, _ = io.Copy(io.Discard, out)
	<-done
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
}
