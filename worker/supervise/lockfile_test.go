//go:build linux

package supervise

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
)

func newLockFile(t *testing.T) *lockFile {
	t.Helper()
	l, err := openLockFile(t.TempDir(), "one")
	must(t, err)
	t.Cleanup(l.close)
	return l
}

// reread returns the list that the next guard reads.
func reread(t *testing.T, path string) (list, error) {
	t.Helper()
	l := &lockFile{path: path, fd: -1}
	must(t, l.open())
	defer l.close()
	err := l.read()
	return l.list, err
}

func TestLockFile_KeepsTheLastListThroughManyChanges(t *testing.T) {
	t.Parallel()
	l := newLockFile(t)
	var want list
	for n := range 3_000 {
		want.Workers = withWorker(want.Workers, fmt.Sprintf("w-%d-%s", n, strings.Repeat("x", n%40)))
		if n%7 == 0 {
			want.Workers = without(want.Workers, want.Workers[:len(want.Workers)/2])
		}
		must(t, l.write(want))
		if n%50 == 0 {
			if got, err := reread(t, l.path); err != nil || !slices.Equal(got.Workers, want.Workers) {
				t.Fatalf("after %d changes: %d ids, want %d, %v", n, len(got.Workers), len(want.Workers), err)
			}
		}
	}
	info, err := os.Stat(l.path)
	must(t, err)
	if info.Size() > rotateBytes+lineBytes {
		t.Errorf("%d bytes", info.Size())
	}
}

// A guard can be killed after any byte of a write, and between the two steps of starting from the beginning again.
func TestLockFile_HasTheOldListOrTheNewAtEveryPointOfAWrite(t *testing.T) {
	t.Parallel()
	for _, rotate := range []bool{false, true} {
		l := newLockFile(t)
		old, next := list{Workers: []string{"old-1", "old-2"}}, list{Workers: []string{"next-1", "next-2", "next-3"}}
		must(t, l.write(old))
		for line := l.end; rotate && l.end+line <= rotateBytes; {
			must(t, l.write(old))
		}
		before, err := os.ReadFile(l.path)
		must(t, err)
		must(t, l.write(next))
		after, err := os.ReadFile(l.path)
		must(t, err)
		if rotated := len(after) < len(before); rotated != rotate {
			t.Fatalf("rotated: %v, want %v", rotated, rotate)
		}
		at, line := len(before), after[len(before)*btoi(!rotate):]
		if rotate {
			at = 0
		}
		path := filepath.Join(t.TempDir(), "torn")
		for n := range len(line) + 1 {
			torn := slices.Clone(before)
			torn = append(torn[:at], append(slices.Clone(line[:n]), torn[min(len(torn), at+n):]...)...)
			must(t, os.WriteFile(path, torn, 0o600))
			got, err := reread(t, path)
			complete := n == len(line) && !rotate
			if want := map[bool]list{false: old, true: next}[complete]; err != nil || !slices.Equal(got.Workers, want.Workers) {
				t.Fatalf("rotate %v, %d of %d bytes written: %v, want %v, %v", rotate, n, len(line), got.Workers, want.Workers, err)
			}
		}
		if got, err := reread(t, l.path); err != nil || !slices.Equal(got.Workers, next.Workers) {
			t.Errorf("written: %v, %v", got.Workers, err)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestLockFile_NeverBelievesAnID(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{`{"workers":["a b"]}`, `{"workers":[""]}`, `{"workers":["` + strings.Repeat("x", 65) + `"]}`, `{"workers":"x"}`, "\x00", ""} {
		must(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		if got, err := reread(t, path); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	noise := make([]byte, 300)
	for range 200 {
		_, _ = rand.New(rand.NewSource(int64(noise[0]) + 1)).Read(noise)
		must(t, os.WriteFile(path, noise, 0o600))
		if got, _ := reread(t, path); len(got.Workers) > 0 {
			t.Errorf("%q: %v", noise, got)
		}
	}
}

func TestLockFile_IsAPlainFileOfThisUserAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, fmt.Sprintf(lockName, "one"))
	must(t, os.WriteFile(filepath.Join(dir, "else"), nil, 0o600))
	must(t, os.Symlink(filepath.Join(dir, "else"), path))
	if l, err := openLockFile(dir, "one"); err == nil {
		t.Errorf("followed a link to %s", l.path)
	}
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Chmod(path, 0o666))
	l, err := openLockFile(dir, "one")
	if err == nil {
		t.Error("took a file that anybody may write")
	}
	l.close()
}

func TestLockFile_IsOnePerPath(t *testing.T) {
	t.Parallel()
	l := newLockFile(t)
	if held, err := l.try(); !held || err != nil {
		t.Fatalf("a free lock: %v, %v", held, err)
	}
	second, err := openLockFile(filepath.Dir(l.path), "one")
	must(t, err)
	defer second.close()
	if held, err := second.try(); held || err != nil {
		t.Fatalf("a taken lock: %v, %v", held, err)
	}
	must(t, l.write(list{Workers: []string{"a"}}))
	must(t, os.Remove(l.path))
	l.close()
	if held, err := second.try(); held || err != nil {
		t.Fatalf("a lock on a file that is gone: %v, %v", held, err)
	}
	// A process that another test forks holds the first lock until it executes its program.
	await.True(t, "a lock on a new file", func() bool {
		held, err := second.try()
		must(t, err)
		return held
	})
	if err := second.read(); err != nil || len(second.list.Workers) > 0 {
		t.Errorf("lists %v, %v", second.list.Workers, err)
	}
}
