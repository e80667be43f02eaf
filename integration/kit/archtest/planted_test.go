package archtest

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var rewrite = flag.Bool("rewrite", false, "write what the rules find into testdata")

// Each file in testdata is a small module that breaks the rule named at the start of the file name. The expected findings
// stand above the files of the module, one a line; `make golden` writes them anew.
func TestRule_FindsPlantedViolation(t *testing.T) {
	t.Parallel()
	for _, p := range plantedFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(p)
			if err != nil {
				t.Fatal(err)
			}
			got := findings(t, ruleOf(t, p), archive)
			if *rewrite {
				archive.Comment = []byte(got)
				if err := os.WriteFile(p, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(archive.Comment), got); diff != "" {
				t.Errorf("findings differ (-want +got):\n%s", diff)
			}
			if got == "" {
				t.Error("the rule found nothing: it cannot fail")
			}
		})
	}
}

func TestRules_EachHasAPlantedViolation(t *testing.T) {
	t.Parallel()
	files := plantedFiles(t)
	for _, rule := range Rules {
		planted := func(p string) bool { return ruleOf(t, p).Name == rule.Name }
		if !slices.ContainsFunc(files, planted) {
			t.Errorf("rule %s has no planted violation: add testdata/%s-WHAT.txtar", rule.Name, rule.Name)
		}
	}
}

func plantedFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no planted violations in testdata: %v", err)
	}
	return files
}

func ruleOf(t *testing.T, p string) Rule {
	t.Helper()
	name, _, _ := strings.Cut(filepath.Base(p), "-")
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("%s: there is no rule %q", p, name)
	}
	return Rules[i]
}

func findings(t *testing.T, rule Rule, archive *txtar.Archive) string {
	t.Helper()
	tree := load(t, archive)
	var lines strings.Builder
	for _, f := range rule.Run(tree) {
		lines.WriteString(f.String() + "\n")
	}
	return lines.String()
}

func load(t *testing.T, archive *txtar.Archive) *Tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module github.com/oarlock-dev/oarlock\n")}}
	for _, f := range archive.Files {
		fsys[f.Name] = &fstest.MapFile{Data: f.Data, Mode: fs.ModePerm}
	}
	tree, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
