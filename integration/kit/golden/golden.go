package golden

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write what the test got into its golden files")

// Equal fails the test unless the file at path holds exactly got.
func Equal(tb testing.TB, path, got string) {
	tb.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("%v (-rewrite makes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		tb.Errorf("%s differs; look at it, and if it is right: make golden, or go test -rewrite (- file, + got)\n%s", path, diff)
	}
}
