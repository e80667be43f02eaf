package dagspec

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
)

func TestParse_ReportsEveryProblemOfABadFile(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/bad/*.*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range paths {
		if strings.HasSuffix(path, ".golden") {
			continue
		}
		seen++
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := Parse(filepath.Base(path), src)
			if err == nil {
				t.Fatalf("accepted: %+v", spec)
			}
			golden.Equal(t, path+".golden", err.Error()+"\n")
		})
	}
	if seen < 60 {
		t.Fatalf("only %d bad files", seen)
	}
}

func TestParse_TakesOneMiBAndNoMore(t *testing.T) {
	t.Parallel()
	head := []byte("name: big\nsteps: [{id: a, run: echo}]\n#")
	full := slices.Concat(head, bytes.Repeat([]byte("x"), MaxBytes-len(head)))
	if _, err := Parse("big.yaml", full); err != nil {
		t.Errorf("1 MiB is refused: %v", err)
	}
	if _, err := Parse("big.yaml", append(full, 'x')); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("more than 1 MiB: %v", err)
	}
}
