package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// recorder is a fake test that records its failure.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

// Not parallel, because the test changes the flag.
func TestEqual_FailsUntilTheFileIsRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		got            string
		rewrite, fails bool
	}{{"old\n", false, false}, {"new\n", false, true}, {"new\n", true, false}, {"new\n", false, false}, {"old\n", false, true}} {
		was := *rewrite
		*rewrite = c.rewrite
		r := &recorder{TB: t}
		Equal(r, path, c.got)
		*rewrite = was
		if r.failed != c.fails {
			t.Errorf("%+v: failed is %v", c, r.failed)
		}
	}
}
