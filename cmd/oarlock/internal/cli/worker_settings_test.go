package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/embed"
)

// configured returns the configuration of a worker with these variables.
func configured(t *testing.T, variables map[string]string) (embed.Config, error) {
	t.Helper()
	e := &env{Env: testEnv()}
	state := t.TempDir()
	e.Lookup = func(name string) (string, bool) {
		if name == "OARLOCK_STATE_DIR" {
			return state, true
		}
		text, ok := variables[name]
		return text, ok
	}
	if err := e.decide(nil); err != nil {
		t.Fatal(err)
	}
	return e.rigConfig(t.Context())
}

func TestRigConfig_KeepsItsOwnDatabaseFromTasksWhenAskedTo(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]bool{"": false, "true": false, "false": true} {
		c, err := configured(t, map[string]string{"OARLOCK_OWN_SQL": given})
		if err != nil {
			t.Fatal(err)
		}
		if c.SQL.KeepOwn != want {
			t.Errorf("own_sql %q: kept is %v", given, c.SQL.KeepOwn)
		}
	}
}

func TestRigConfig_HandsOutNoWayToItsDatabases(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("postgres://h/d"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := configured(t, map[string]string{
		"OARLOCK_CONNECTIONS": "a=file:" + file + ",b=env:B_URL", "B_URL": "postgres://h/b", "HOME": "/home/w",
		"OARLOCK_SECRETS_ENV": "SHOP_*,X", "OARLOCK_SECRETS_FILES": "[]", "OARLOCK_SECRETS_COMMAND": "/bin/true,--of,etl",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := worker.SecretPolicy{
		Env: []string{"SHOP_*", "X"}, Files: []string{}, Command: []string{"/bin/true", "--of", "etl"},
		NeverEnv: []string{"B_URL"}, NeverFiles: []string{file, "/home/w/.pgpass"},
	}
	if diff := cmp.Diff(want, c.Secrets); diff != "" {
		t.Error(diff)
	}
	if got := c.Commands.EnvSecrets; !slices.Equal(got, want.Env) {
		t.Errorf("tasks inherit what may be a secret: %v", got)
	}
	if c, err = configured(t, nil); err != nil || c.Secrets.Env != nil || c.Secrets.Files != nil {
		t.Errorf("without settings all is allowed: %+v, %v", c.Secrets, err)
	}
}
