package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/worker"
)

// What a DAG may ask the worker for is the worker's to say; the way to its own database is nobody's.
func TestSecrets_AreThoseThatTheWorkerAllows(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"token", "warehouse"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("hunter2"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "warehouse"), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "warehouse"), filepath.Join(dir, "hard")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SHOP_KEY", "OTHER", "WAREHOUSE_URL", "DATABASE_URL", "OARLOCK_DATABASE_URL", "PGPASSWORD"} {
		t.Setenv(name, "hunter2")
	}
	listed := worker.SecretPolicy{Env: []string{"SHOP_*", "PG*"}, Files: []string{dir + "/to*", "/proc/*/*"}}
	own := worker.SecretPolicy{NeverEnv: []string{"WAREHOUSE_URL"}, NeverFiles: []string{dir + "/warehouse", dir + "/gone"}}
	none := worker.SecretPolicy{Env: []string{}, Files: []string{}}
	for _, tt := range []struct {
		policy worker.SecretPolicy
		secret string // from where
		want   string // in the reason; "": it is handed out
	}{
		{worker.SecretPolicy{}, "env, key: OTHER", ""},
		{worker.SecretPolicy{}, "file, key: " + dir + "/token", ""},
		{worker.SecretPolicy{}, "env, key: DATABASE_URL", "secrets_env"},
		{worker.SecretPolicy{}, "env, key: OARLOCK_DATABASE_URL", "secrets_env"},
		{listed, "env, key: PGPASSWORD", "secrets_env"},
		{listed, "env, key: SHOP_KEY", ""},
		{listed, "env, key: OTHER", "variable OTHER is not among secrets_env of this worker"},
		{listed, "file, key: " + dir + "/token", ""},
		{listed, "file, key: " + dir + "/toke/../warehouse", "secrets_files"},
		{listed, "file, key: /proc/self/environ", "secrets_files"},
		{own, "env, key: WAREHOUSE_URL", "secrets_env"},
		{own, "file, key: " + dir + "/warehouse", "secrets_files"},
		{own, "file, key: " + dir + "/linked", "secrets_files"},
		{own, "file, key: " + dir + "/hard", "secrets_files"},
		{own, "file, key: " + dir + "/token", ""},
		{none, "env, key: OTHER", "secrets_env"},
		{none, "file, key: " + dir + "/token", "secrets_files"},
	} {
		b := setup(t, "name: d\nsecrets: [{name: s, from: "+tt.secret+"}]\nsteps: [{id: a, run: x}]\n")
		b.start(t, "w", func(c *worker.Config) { c.Secrets = tt.policy })
		id := b.enqueue(t, "d")
		state := b.await(t, id).State
		tasks, err := b.Tasks(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case tt.want == "" && state != "succeeded", tt.want != "" && (state != "failed" || tasks[0].FailureKind != "config"),
			!strings.Contains(tasks[0].Reason, tt.want), strings.Contains(tasks[0].Reason, "hunter2"):
			t.Errorf("%s: %s: %s (%s)", tt.secret, state, tasks[0].Reason, tasks[0].FailureKind)
		}
	}
}
