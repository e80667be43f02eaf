package cli

import (
	"testing"

	"github.com/oarlock-dev/oarlock/worker/rig"
)

// configured is the worker that variables make.
func configured(t *testing.T, variables map[string]string) (rig.Config, error) {
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
	return e.rigConfig()
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
