package proc

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// BenchmarkSpawn compares a body with the bare loop around os/exec that copies two pipes.
func BenchmarkSpawn(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			bareSpawn(b)
		}
	})
	for name, change := range map[string]func(*Config){
		"proc":        func(*Config) {},
		"proc-tmpfs":  func(c *Config) { c.Dir = tmpfs(b) },
		"proc-cgroup": func(c *Config) { c.Dir, c.Cgroup = tmpfs(b), OwnCgroup() },
	} {
		b.Run(name, func(b *testing.B) {
			x := setup(b, change)
			for b.Loop() {
				t := task(dagspec.Step{Command: "/bin/true"})
				t.Stdout, t.Stderr = io.Discard, io.Discard
				if r := x.Execute(b.Context(), t); r.Kind != "" {
					b.Fatal(r)
				}
			}
		})
	}
}

func tmpfs(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "oarlock-proc-*")
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
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
