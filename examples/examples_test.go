package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/golden"
	"github.com/oarlock-dev/oarlock/internal/graphview"
)

func TestExamples_ParseCompileAndDraw(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			draw(t, file)
		})
	}
}

func draw(t *testing.T, file string) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := dagspec.Parse(file, src)
	if err != nil {
		t.Fatal(err)
	}
	graph, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	view := graphview.FromSpec(spec, graph)
	checkSchemaLine(t, file, string(src))
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	golden.Equal(t, filepath.Join("testdata", name+".txt"), graphview.Text(view, graphview.TextOptions{}))
	golden.Equal(t, filepath.Join("testdata", name+".dot"), graphview.DOT(view))
	golden.Equal(t, filepath.Join("testdata", name+".mmd"), graphview.Mermaid(view))
	golden.Equal(t, filepath.Join("testdata", name+".svg"), graphview.SVG(view))
}

// checkSchemaLine wants the first line to lead an editor to the schema.
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
