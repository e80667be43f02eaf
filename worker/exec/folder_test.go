package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Other programs clean up temporary folders, and state folders are removed by mistake.
func TestSession_IsMadeAgainWhereItWasRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "work")
	x := setup(t, func(c *Config) { c.Dir, c.RunDir = dir, filepath.Join(dir, "run") })
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := x.run(t, shell("pwd; : >file; : >$OARLOCK_OUTPUT")); got.Kind != dagrun.KindNone {
			t.Errorf("got %+v", got)
		}
	}
	second := setup(t, func(c *Config) { c.Dir = dir })
	if _, err := os.Stat(x.work.path); err != nil {
		t.Errorf("it was swept as nobody's: %v", err)
	}
	if got := second.run(t, shell("true")); got.Kind != dagrun.KindNone {
		t.Errorf("got %+v", got)
	}
}

func TestSession_IsNotMadeAgainWhereOthersCould(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "open")
	dir := filepath.Join(open, "work")
	x := setup(t, func(c *Config) { c.Dir = dir })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := x.run(t, shell("pwd")); !got.Unstarted || !strings.Contains(got.Reason, "no such file or directory (state_dir "+dir+")") {
		t.Errorf("got %+v", got)
	}
}
