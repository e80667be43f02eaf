package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/worker"
)

// The worker decides which secrets a DAG may have. No DAG may have the access to the worker's own database.
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
		secret string // the source of the secret
		want   string // text in the reason; "": the secret is handed out
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
		b := setup(t, "name: d\nsecrets: [{name: s, from: "+tt.secret+"}]\nsteps: [{id: a, run: x, secrets: [s]}]\n")
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

// A secret goes only to the bodies that name it. A missing secret fails only these bodies, and the handler that raises the alarm
// runs.
func TestSecrets_GoToTheBodiesThatNameThem(t *testing.T) {
	t.Setenv("DB_WORD", "hunter2")
	b := setup(t, `
name: d
secrets: [{name: DB, from: env, key: DB_WORD}, {name: gone, from: env, key: NOT_THERE}]
handler_on:
  failure: {run: alarm}
  exit: {run: bye, env: {SAID: 'no ${secrets.gone}'}}
steps:
  - {id: named, run: x, secrets: [DB], publish: {run: y}}
  - {id: refers, depends: [named], command: x, env: {PGPASSWORD: 'p:${secrets.DB}'}}
  - {id: none, depends: [refers], run: x}
  - {id: own, depends: [none], run: x, secrets: [{name: OWN, from: env, key: DB_WORD}]}
  - {id: lacks, depends: [own], run: x, secrets: all}
`)
	id := b.enqueue(t, "d")
	b.start(t, "w", nil)
	r := b.await(t, id)
	if !strings.Contains(r.Reason, "secret gone: the worker has no environment variable NOT_THERE") {
		t.Errorf("the run is %s: %s", r.State, r.Reason)
	}
	if got := b.states(t, id); !strings.Contains(got, "lacks=failed") || !strings.Contains(got, "@failure=succeeded") || !strings.Contains(got, "@exit=failed") {
		t.Errorf("tasks: %s", got)
	}
	want := map[string]string{
		"named": "map[DB:hunter2] map[]", "named publish": "map[DB:hunter2] map[]", "refers": "map[] map[PGPASSWORD:p:hunter2]",
		"none": "map[] map[]", "own": "map[OWN:hunter2] map[]", "@failure": "map[] map[]",
	}
	close(b.bodies.started)
	got := map[string]string{}
	for task := range b.bodies.started {
		name := task.Step
		if task.Publish {
			name += " publish"
		}
		got[name] = fmt.Sprint(task.Secrets, " ", task.Resolved.Env)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A worker without a secrets command does not offer it, so a run that needs the command waits for another worker.
func TestSecrets_AreOfferedFromACommandWhereThereIsOne(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsecrets: [{name: s, from: command, key: k}]\nsteps: [{id: a, run: x, secrets: [s]}]\n")
	id := b.enqueue(t, "d")
	b.start(t, "without", nil)
	b.start(t, "with", func(c *worker.Config) { c.Secrets.Command = []string{"/bin/echo", "the secret of"} })
	task := <-b.bodies.started
	if r := b.await(t, id); r.State != "succeeded" || task.Secrets["s"] != "the secret of k" {
		t.Errorf("%s: %s: %v", r.State, r.Reason, task.Secrets)
	}
}
