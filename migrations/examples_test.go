package migrations_test

import (
	"os"
	"os/exec"
	"testing"
)

// The programs that applications would write, as a submitter runs them. One whose client is not at hand is skipped, and
// says which.
func TestExamples_EnqueueInTransactions(t *testing.T) {
	t.Parallel()
	const dir, want = "../examples/enqueue", "committed: run is queued\nrolled back: 0 orders, 0 runs\n"
	b := apiWithRoles(t)
	b.put(t, `{"name": "report", "params": [{"name": "order", "type": "integer", "required": true}], "steps": [{"id": "render", "run": "true"}]}`)
	app := b.user(t, "app", "oarlock_submit")
	url := app.Config().ConnString()
	for name, c := range map[string]struct{ has, run []string }{
		"psql":   {[]string{"psql", "--version"}, []string{"psql", url, "-X", "-f", "enqueue.sql"}},
		"python": {[]string{"python3", "-c", "try:\n import psycopg\nexcept ImportError:\n import psycopg2"}, []string{"python3", "enqueue.py"}},
		"node":   {[]string{"node", "-e", "require('pg')"}, []string{"node", "enqueue.mjs"}},
	} {
		t.Run(name, func(t *testing.T) {
			command := func(args []string) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "DATABASE_URL="+url)
				return cmd
			}
			if _, err := command(c.has).CombinedOutput(); err != nil {
				t.Skipf("the client for %s is not installed", name)
			}
			for range 2 { // the second time its key finds the run
				if out, err := command(c.run).CombinedOutput(); err != nil || string(out) != want {
					t.Errorf("%v, said:\n%s\nwant:\n%s", err, out, want)
				}
			}
			if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs WHERE run_key = $1", name+"-order-1"); n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
}
