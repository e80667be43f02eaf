package migrations_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// TestUp_MakesTheSchemaThatReviewersSaw shows every change of a migration, grants included, as a diff of one file.
func TestUp_MakesTheSchemaThatReviewersSaw(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	b.mustRoles(t)
	query, err := os.ReadFile("testdata/dump.sql")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/schema.txt", strings.Join(b.list(t, string(query)), "\n")+"\n")
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s is not what is made (-rewrite writes it): %s", path, diff)
	}
}
