package pglocal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPublicURL_LogsInAndShowsNoPassword(t *testing.T) {
	t.Parallel()
	s := startServer(t, Config{Dir: madeDir(t)})
	defer stopServer(t, s)
	shown, err := s.PublicURL("")
	must(t, err)
	if strings.Contains(shown, s.folder.state.Password) {
		t.Error("the password is shown")
	}
	if got := query(t, shown, "SELECT 'in'"); got != "in" {
		t.Error(got)
	}
	info, err := os.Stat(filepath.Join(s.Dir(), "pgpass"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the password: %v", info.Mode())
	}
}
