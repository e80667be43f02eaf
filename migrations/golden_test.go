package migrations_test

import (
	"os"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
)

// TestUp_MakesTheSchemaThatReviewersSaw shows every change of a migration, grants included, as a diff of one file.
func TestUp_MakesTheSchemaThatReviewersSaw(t *testing.T) {
	t.Parallel()
	b := migrated(t)
	b.mustRoles(t)
	query, err := os.ReadFile("testdata/dump.sql")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/schema.txt", strings.Join(b.list(t, string(query)), "\n")+"\n")
}
