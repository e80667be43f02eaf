package examples

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/graphview"
)

var rewrite = flag.Bool("rewrite", false, "write what is drawn into testdata")

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
	golden(t, name+".txt", graphview.Text(view, graphview.TextOptions{}))
	golden(t, name+".dot", graphview.DOT(view))
	golden(t, name+".mmd", graphview.Mermaid(view))
	golden(t, name+".svg", graphview.SVG(view))
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

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is drawn differently (look at it, then go test -rewrite):\n%s", file, diff)
	}
}
