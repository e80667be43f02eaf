package cli

import (
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// everyLine has a command line for each command that uses a database.
var everyLine = map[string]struct {
	words string
	apart string // why a script tests the command instead: it starts other processes, or ends by a signal
}{
	"run": {"run FILE", ""}, "exec": {"exec -- true", ""}, "dev": {"dev", ""},
	"dag apply": {"dag apply FILE", ""}, "dag validate": {"dag validate FILE", ""}, "dag list": {"dag list", ""}, "dag show": {"dag show x", ""},
	"dag versions": {"dag versions x", ""}, "dag graph": {"dag graph x", ""}, "dag schema": {"dag schema", ""}, "dag pause": {"dag pause x", ""},
	"dag resume": {"dag resume x", ""}, "dag rm": {"dag rm x", ""}, "dag retire": {"dag retire x", ""}, "enqueue": {"enqueue x -p day=1", ""}, "list": {"list", ""}, "status": {"status 1", ""},
	"events": {"events 1", ""}, "logs": {"logs 1", ""}, "cancel": {"cancel 1", ""}, "pause": {"pause 1", ""}, "resume": {"resume 1", ""},
	"retry": {"retry 1", ""}, "approvals": {"approvals", ""}, "approve": {"approve 1 a", ""}, "reject": {"reject 1 a", ""}, "mark": {"mark 1 a --as succeeded", ""}, "top": {"top", ""}, "web": {"", "web.txtar"},
	"stats": {"stats", ""}, "prune": {"prune --dry-run", ""}, "migrate up": {"migrate up", ""}, "migrate status": {"migrate status", ""},
	"migrate down": {"migrate down --to 0", ""}, "migrate roles": {"migrate roles", ""}, "worker": {"", "worker.txtar"}, "workers": {"workers", ""},
	"workers drain": {"workers drain w1", ""}, "queues": {"queues", ""}, "queues pause": {"queues pause default", ""}, "queues resume": {"queues resume default", ""},
	"pools": {"pools", ""}, "pools show": {"pools show p", ""}, "pools set": {"pools set p --slots 1", ""}, "pools close": {"pools close p", ""},
	"pools open": {"pools open p", ""}, "pools rm": {"pools rm p", ""},
	"queues set": {"queues set default --max-running 1", ""}, "doctor": {"doctor", ""}, "config show": {"config show --origin", ""}, "version": {"version", ""},
	"schedules": {"schedules", ""}, "schedules show": {"schedules show x", ""}, "schedules next": {"schedules next x", ""}, "schedules fires": {"schedules fires x", ""},
	"schedules pause": {"schedules pause x", ""}, "schedules resume": {"schedules resume x", ""}, "schedules trigger": {"schedules trigger x", ""},
	"schedules put": {"schedules put x y --cron @daily", ""}, "schedules rm": {"schedules rm x", ""},
	"backfill": {"backfill x --from 1d --until 0s", ""}, "backfill list": {"backfill list", ""}, "backfill pause": {"backfill pause x", ""},
	"backfill resume": {"backfill resume x", ""}, "backfill cancel": {"backfill cancel x", ""},
	"completion": {"completion bash", ""}, "migrate adopt": {"migrate adopt --moved --yes", ""},
}

const leaked = "hunter2"

func TestCommands_ShowNoPassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "x.yaml")
	writeFile(t, file, "name: x\nparams: [{name: day}]\nsteps: [{id: a, action: noop}]\n")
	addresses := map[string]string{"away": "postgres://ana:" + leaked + "@127.0.0.1:1/app", "unreadable": "postgres://ana:" + leaked + "@db:notaport/app"}
	if !testing.Short() {
		addresses["there"] = passing(t, pgtest.New(t).URL)
	}
	eachCommand(newApp(&env{Env: testEnv()}), func(path []*cli.Command) {
		if len(path[len(path)-1].Subcommands) > 0 && path[len(path)-1].Action == nil {
			return
		}
		name := pathName(path)
		line, known := everyLine[name]
		if !known {
			t.Errorf("%s: this test has no line for it", name)
		}
		for kind, address := range addresses {
			if line.apart != "" || kind == "there" && (name == "run" || name == "exec" || name == "dev") { // scripts test these
				continue
			}
			t.Run(name+" "+kind, func(t *testing.T) { showsNone(t, dir, address, strings.ReplaceAll(line.words, "FILE", file)) })
		}
	})
}

// The same for passwords from libpq's sources: the process's environment, and files. All commands connect by the same code,
// so each command is tried with one of the sources in turn. doctor prints most, so it is tried with all of them.
func TestCommands_ShowNoPasswordOfLibpq(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "x.yaml")
	writeFile(t, file, "name: x\nparams: [{name: day}]\nsteps: [{id: a, action: noop}]\n")
	u, err := url.Parse(passing(t, pgtest.New(t).URL))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	writeFile(t, filepath.Join(dir, "pass"), "*:*:*:*:"+password+"\n")
	writeFile(t, filepath.Join(dir, "service"), "[app]\npassword="+password+"\n")
	inService := *u
	q := inService.Query()
	q.Set("service", "app")
	inService.RawQuery = q.Encode()
	ways := [][]string{
		{"PGPASSWORD=" + password, "DATABASE_URL=" + u.String()},
		{"PGPASSFILE=" + filepath.Join(dir, "pass"), "DATABASE_URL=" + u.String()},
		{"PGSERVICEFILE=" + filepath.Join(dir, "service"), "DATABASE_URL=" + inService.String()},
	}
	for i, name := range slices.Sorted(maps.Keys(everyLine)) {
		line, tried := everyLine[name], ways[i%len(ways):][:1]
		if name == "doctor" {
			tried = ways
		}
		if line.apart != "" || name == "run" || name == "exec" || name == "dev" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, vars := range tried {
				cmd := exec.Command("oarlock", strings.Fields(strings.ReplaceAll(line.words, "FILE", file))...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), append(slices.Clone(vars), "OARLOCK_CONFIG=/dev/null", "OARLOCK_LOG_LEVEL=debug", "OARLOCK_OUTPUT=json")...)
				out, _ := cmd.CombinedOutput() // many of the commands fail because they find nothing
				if said := string(out); strings.Contains(said, password) || strings.Contains(said, "28P01") {
					t.Errorf("with %s it shows the password, or does not use it:\n%s", strings.SplitN(vars[0], "=", 2)[0], said)
				}
			}
		})
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func showsNone(t *testing.T, dir, address, line string) {
	t.Helper()
	for _, format := range []string{"table", "json"} {
		e := testEnv()
		e.Dir = dir
		vars := map[string]string{"DATABASE_URL": address, "OARLOCK_LOG_LEVEL": "debug", "OARLOCK_OUTPUT": format, "XDG_STATE_HOME": dir}
		e.Lookup = func(name string) (string, bool) { text, ok := vars[name]; return text, ok }
		got := invoke(t, e, strings.Fields(line)...)
		if said := got.stdout + got.stderr; strings.Contains(said, leaked) {
			t.Errorf("%s -o %s shows the password:\n%s", line, format, said)
		}
	}
}

// passing returns an address with a password that the server ignores, or with the right one. The test only needs the
// password to be there.
func passing(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", "oarlock")
	u.RawQuery = q.Encode()
	if _, secret := u.User.Password(); !secret {
		u.User = url.UserPassword(u.User.Username(), leaked)
	}
	return u.String()
}
