package embed

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func remembering(dir string) *memory { return &memory{dir: dir, log: slog.New(slog.DiscardHandler)} }

func TestMemory_OutlivesItsProcessAndIsForItsUserAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "installations")
	id, other := uuid.NewString(), uuid.NewString()
	m := remembering(dir)
	if got := m.Recall(id); got != nil {
		t.Errorf("it remembers %v from the start", got)
	}
	m.Remember(id, []string{"pg1:5432/app"})
	m.Remember(other, []string{"pg3:5432/app"})
	m.Remember(id, []string{"pg1:5432/app", "pg2:5432/app"})
	for _, m := range []*memory{m, remembering(dir)} {
		if got := m.Recall(id); !slices.Equal(got, []string{"pg1:5432/app", "pg2:5432/app"}) {
			t.Errorf("it remembers %v", got)
		}
		if got := m.Recall(other); !slices.Equal(got, []string{"pg3:5432/app"}) {
			t.Errorf("of the other it remembers %v", got)
		}
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, id+".json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

func TestMemory_IsNoMoreThanAHelp(t *testing.T) {
	t.Parallel()
	dir, id := t.TempDir(), uuid.NewString()
	if err := os.WriteFile(filepath.Join(dir, id+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := remembering(dir)
	if got := m.Recall(id); got != nil {
		t.Errorf("of half a file it remembers %v", got)
	}
	if got := m.Recall("../../etc/passwd"); got != nil {
		t.Errorf("of no id it remembers %v", got)
	}
	m = remembering(filepath.Join(dir, id+".json")) // no folder can be made there
	m.Remember(id, []string{"a"})
	if got := m.Recall(id); got != nil {
		t.Errorf("without a folder it remembers %v", got)
	}
}

func TestMemory_HasALimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n := range maxMemories + 5 {
		path := filepath.Join(dir, fmt.Sprintf("%d.json", n))
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(n-1000) * time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	id := uuid.NewString()
	remembering(dir).Remember(id, []string{"a"})
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != maxMemories || slices.Contains(files, filepath.Join(dir, "5.json")) || !slices.Contains(files, filepath.Join(dir, "6.json")) {
		t.Errorf("%d files are left, want %d, the newest", len(files), maxMemories)
	}
}
