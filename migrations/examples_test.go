package migrations_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// program is one of examples/enqueue.
type program struct {
	has []string // command that fails if the client is missing
	run []string
}

const anyPsycopg = "try:\n import psycopg\nexcept ImportError:\n import psycopg2"

func programs(url string) map[string]program {
	python := "python3"
	if exec.CommandContext(context.Background(), python, "-c", anyPsycopg).Run() != nil {
		python = "/usr/bin/python3" // the python of the system, which Debian's packages are for
	}
	return map[string]program{
		"psql":   {[]string{"psql", "--version"}, []string{"psql", url, "-X", "-f", "enqueue.sql"}},
		"shell":  {[]string{"psql", "--version"}, []string{"./enqueue.sh"}},
		"python": {[]string{python, "-c", anyPsycopg}, []string{python, "enqueue.py"}},
		"node":   {[]string{"node", "-e", "require('pg')"}, []string{"node", "enqueue.mjs"}},
		"go":     {[]string{"go", "version"}, []string{"go", "run", "."}},
	}
}

// Runs the example programs of applications as a submitter. A program without its client is skipped with the name of the
// client, but fails if OARLOCK_EXAMPLE_CLIENTS names it, which has the output of tools/ensure-clients.
func TestExamples_EnqueueInTransactions(t *testing.T) {
	t.Parallel()
	const dir, want = "../examples/enqueue", "committed: run is queued\nrolled back: 0 orders, 0 runs\n"
	clients, err := filepath.Abs("../.cache/clients/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	b := apiWithRoles(t)
	b.put(t, `{"name": "report", "params": [{"name": "order", "type": "integer", "required": true}], "steps": [{"id": "render", "run": "true"}]}`)
	app := b.user(t, "app", "oarlock_submit")
	url := app.Config().ConnString()
	for name, c := range programs(url) {
		t.Run(name, func(t *testing.T) {
			command := func(args []string) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "DATABASE_URL="+url)
				if os.Getenv("NODE_PATH") == "" {
					cmd.Env = append(cmd.Env, "NODE_PATH="+clients)
				}
				return cmd
			}
			if out, err := command(c.has).CombinedOutput(); err != nil {
				if slices.Contains(strings.Fields(os.Getenv("OARLOCK_EXAMPLE_CLIENTS")), name) {
					t.Fatalf("tools/ensure-clients found the client for %s, and it is not there: %v\n%s", name, err, out)
				}
				t.Skipf("the client for %s is not installed: see examples/enqueue/README.md", name)
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
