package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
)

func TestConfigShow_FoldsLongValuesOnATerminal(t *testing.T) {
	t.Parallel()
	e := testEnv()
	e.StdoutTTY, e.Columns = true, 80
	got := invoke(t, e, "config", "show", "--origin")
	for line := range strings.Lines(got.stdout) {
		if w := term.Width(strings.TrimSuffix(line, "\n")); w > 80 {
			t.Errorf("a line of %d columns: %s", w, line)
		}
	}
	if got.exit != exitOK || !strings.Contains(got.stdout, "\nenv_deny ") || !strings.Contains(got.stdout, "*TOKEN*") {
		t.Errorf("exit %d, said %s", got.exit, got.stdout)
	}
}

func TestConfigShow_NamesThePrivateDatabase(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	folder := filepath.Join(state, "oarlock", "pg")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "state.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := testEnv()
	vars := map[string]string{"XDG_STATE_HOME": state}
	e.Lookup = func(name string) (string, bool) { text, ok := vars[name]; return text, ok }
	if got := invoke(t, e, "config", "show", "-o", "jsonl"); !strings.Contains(got.stdout, `{"key":"database_url","value":"private","origin":"default","where":"`+folder+`"}`) {
		t.Errorf("said %s%s", got.stdout, got.stderr)
	}
}
