package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

func TestExamples_ParseAndCompile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			compile(t, file)
		})
	}
}

func compile(t *testing.T, file string) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := dagspec.Parse(file, src)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spec.Graph(); err != nil {
		t.Fatal(err)
	}
	checkSchemaLine(t, file, string(src))
}

// checkSchemaLine expects a first line that leads an editor to the schema.
func checkSchemaLine(t *testing.T, file, src string) {
	t.Helper()
	line, _, _ := strings.Cut(src, "\n")
	path, ok := strings.CutPrefix(line, "# yaml-language-server: $schema=")
	if !ok {
		t.Fatalf("%s does not begin with its schema: %q", file, line)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), path)); err != nil {
		t.Error(err)
	}
}
