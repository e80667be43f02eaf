package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// A body's folder has no trace of another body.
func TestWorkdir_ServesAnotherBodyOnlyAsItWas(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		again      bool
	}{
		{"untouched", ":", true},
		{"read", "ls -A; cd ..; cd -", true},
		{"file", ": > file", false},
		{"hidden file", ": > .file", false},
		{"folder", "mkdir -p a/b", false},
		{"file that went", ": > file; rm file", false},
		{"mode", "chmod 777 .", false},
		{"no mode", "chmod 0 .", false},
		{"gone", "rmdir $PWD", false},
		{"another in its place", "rmdir $PWD; mkdir $PWD; : > $PWD/file", false},
		{"a link in its place", "rmdir $PWD; ln -s / $PWD", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x := setup(t)
			first := shell("stat -c %i .; " + tt.body)
			if got := x.run(t, first); got.Kind != dagrun.KindNone {
				t.Fatalf("got %+v, %s", got, stderr(first))
			}
			inode, _, _ := strings.Cut(stdout(first), "\n")
			next := shell("stat -c '%i %a %h' .; ls -A; pwd -P")
			if got := x.run(t, next); got.Kind != dagrun.KindNone {
				t.Fatalf("then %+v, %s", got, stderr(next))
			}
			lines := strings.Split(strings.TrimSpace(stdout(next)), "\n")
			if len(lines) != 2 || !strings.HasSuffix(lines[0], " 700 2") || filepath.Dir(lines[1]) != x.work.path {
				t.Errorf("the next has %q", lines)
			}
			if tt.again && !strings.HasPrefix(lines[0], inode+" ") {
				t.Errorf("the next has folder %s, not the untouched %s", lines[0], inode)
			}
			x.onlyFree(t)
		})
	}
}

// onlyFree makes sure that nothing is left but working folders for other bodies, with nothing in them.
func (b *testBundle) onlyFree(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(b.work.path)
	if err != nil || len(left) != len(b.workdirs.free) {
		t.Errorf("left: %v, %v, free: %d", left, err, len(b.workdirs.free))
	}
	for _, d := range b.workdirs.free {
		if inside, err := os.ReadDir(d.path); err != nil || len(inside) > 0 {
			t.Errorf("in %s: %v, %v", d.path, inside, err)
		}
	}
}

func TestWorkdir_IsNotSharedWithWhatWasLeftBehind(t *testing.T) {
	t.Parallel()
	x := setup(t)
	first := shell("sleep 60 & pwd")
	first.Body.Kill = &dagspec.Kill{Leftovers: "keep"}
	second := shell("pwd")
	for _, task := range []*worker.Task{first, second} {
		if got := x.run(t, task); got.Kind != dagrun.KindNone {
			t.Fatalf("got %+v, %s", got, stderr(task))
		}
	}
	if stdout(first) == stdout(second) {
		t.Errorf("both have %s", stdout(first))
	}
}
