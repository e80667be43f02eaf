package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 60 {
		t.Errorf("%d scripts: every rule of the language has one, there were more than 60", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			runFile(t, file)
		})
	}
}

func runFile(t *testing.T, file string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(want), "# ") {
		t.Error("the first line of a script says its rule")
	}
	got, err := Run(string(want))
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, file, got)
}
