package integration

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/queue"
)

// docs/start.md is typed from its first command to its last, on a server without anything of Oarlock.
func TestStart_PageIsTypedInOrder(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts servers")
	}
	if out, err := exec.Command("psql", "--version").Output(); err != nil || !newPsql(string(out)) {
		t.Skip("no psql 15 or newer")
	}
	node := pgcluster.StartEmpty(t, nil) // the page makes roles, which belong to a server
	at, err := url.Parse(node.URL())
	if err != nil {
		t.Fatal(err)
	}
	b := &testBundle{db: &pgtest.DB{URL: node.URL()}, dir: cloned(t)}
	book := b.openBook(t, "docs/start.md", read(t, "../docs/start.md"))
	password, _ := at.User.Password()
	book.url, book.shell = "", "export XDG_STATE_HOME="+b.dir+"\n"
	book.words["PGHOST=localhost PGDATABASE=app"] = "PGHOST=" + at.Hostname() + " PGPORT=" + at.Port() + " PGDATABASE=" + strings.Trim(at.Path, "/")
	book.words["127.0.0.1:7070"] = "127.0.0.1:…" // a port that is free
	book.words["/tmp"] = b.dir
	state := "state_dir=" + filepath.Join(b.dir, "worker")

	// The private database: build, write, run, dev, enqueue, look, retry.
	book.next(t, "sh") // the program is built, and on the PATH
	book.console(t)
	dag := book.next(t, "yaml")
	b.write(t, "dags/report.yaml", dag)
	book.console(t)
	dev := book.terminal(t)
	book.words["postgres://…"] = dev.found(t, `DATABASE_URL='(.+)'$`)
	for range 4 {
		book.console(t)
	}
	dev.leave(t)

	// The database of the team: roles, logins, a worker, an application, pages, a schedule.
	book.shell += "export PGPASSWORD=" + password + "\n"
	for range 6 {
		book.console(t)
	}
	book.terminal(t, state)
	for range 4 {
		book.console(t)
	}
	book.terminal(t, "web_listen=127.0.0.1:0")
	b.write(t, "dags/report.yaml", dag+book.next(t, "yaml"))
	for range 4 {
		book.console(t)
	}
}

// cloned returns a folder with the files that the page finds in a clone. If the test is root's, `oarlock run` starts the
// server as another user, which must be able to enter the folder.
func cloned(t *testing.T) (folder string) {
	t.Helper()
	folder, err := os.MkdirTemp(pglocal.FastTempDir(), "oarlock-start-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o711); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"deploy", "examples"} {
		from, err := filepath.Abs(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Every DAG of docs/cookbook.md can be registered, and prints the text below it if there is one. The rest of the page is
// typed in order.
func TestCookbook_RecipesWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.worker(t, "w1", "slots=16")
	people := *b
	people.url = b.db.Login(t, "oarlock_admin")
	submitter := b.db.Login(t, "oarlock_submit")
	b.write(t, "submitter.env", "OARLOCK_DATABASE_URL='"+submitter+"'\n")
	b.writeProgram(t, "etl/bin/load-orders", "#!/bin/sh\necho \"orders of $2\"\n")
	book := b.openBook(t, "docs/cookbook.md", read(t, "../docs/cookbook.md"))
	book.url = people.url
	book.words["/etc/oarlock"], book.words["/opt/etl"], book.words["/srv/artifacts"] = b.dir, b.dir+"/etl", b.dir+"/artifacts"
	ran := 0
	for len(book.blocks) > 0 {
		switch language := book.blocks[0][1]; language {
		case "yaml":
			source := book.next(t, language)
			b.write(t, "recipe.yaml", source)
			people.oarlock(t, "dag", "apply", filepath.Join(b.dir, "recipe.yaml"))
			if len(book.blocks) > 0 && book.blocks[0][1] == "text" {
				ran++
				b.printsAs(t, source, book.next(t, "text"))
			}
		case "console":
			book.console(t)
		case "crontab":
			book.cron(t, submitter)
		case "sql":
			b.insertAs(t, submitter, book.next(t, language))
		case "sh":
			book.tidy(t)
		default:
			book.next(t, "dockerfile") // needs an engine
		}
	}
	if ran < 3 {
		t.Errorf("only %d recipes were run", ran)
	}
}

// cron runs the line of a crontab twice, as two hosts with the same line would. It expects a single run, which the login
// of the line's file submitted.
func (r *runbook) cron(t *testing.T, submitter string) {
	t.Helper()
	login, err := url.Parse(submitter)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.ReplaceAll(r.next(t, "crontab"), `$(date +\%F)`, "2026-11-20")
	command := strings.SplitN(line, " ", 6)[5]
	for range 2 {
		if out, status := r.types(command); out != "" || status != 0 {
			t.Errorf("$ %s\n%s\nended with %d", command, out, status)
		}
	}
	page, err := r.List(t.Context(), queue.Filter{DAG: "cleanup"})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Key != "cleanup-2026-11-20" || page.Runs[0].SubmittedBy != login.User.Username() {
		t.Errorf("cron made %+v, %v", page.Runs, err)
	}
}

// tidy types the script that removes old folders. The script must remove the folder of a run that is over, and no other.
func (r *runbook) tidy(t *testing.T) {
	t.Helper()
	script := r.next(t, "sh")
	open, err := r.Get(t.Context(), r.enqueue(t, "deploy", map[string]any{"version": "v1.2.3"})) // waits for its approval
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().AddDate(0, 0, -15)
	for name, made := range map[string]time.Time{"over": old, open.UID.String(): old, "young": time.Now()} {
		folder := filepath.Join(r.dir, "artifacts", name)
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.Chtimes(folder, made, made)); err != nil {
			t.Fatal(err)
		}
	}
	reader := *r
	reader.url = r.db.Login(t, "oarlock_read")
	reader.blind(t, script)
	for _, want := range [][]string{{open.UID.String(), "over", "young"}, {open.UID.String(), "young"}} {
		left, err := filepath.Glob(filepath.Join(r.dir, "artifacts", "*"))
		for i := range left {
			left[i] = filepath.Base(left[i])
		}
		if err != nil || !slices.Equal(left, want) {
			t.Fatalf("%s\nleft %q, %v, want %q", script, left, err, want)
		}
		if out, status := reader.types(script); out != "" || status != 0 {
			t.Fatalf("%s\n%s\nended with %d", script, out, status)
		}
	}
}

// blind types the script where it cannot see all open runs: with other logins, without a database, and with a list that
// one run fills. Each time the script must end with an error. The caller checks that no folder is gone.
func (r *runbook) blind(t *testing.T, script string) {
	t.Helper()
	for who, address := range map[string]string{
		"nobody, for want of a database": "postgres://127.0.0.1:1/none",
		"a submitter":                    r.db.User(t, "other", "oarlock_submit"),
		"an approver":                    r.db.Login(t, "oarlock_approve"),
	} {
		blind := *r
		blind.url = address
		if out, status := blind.types(script); status == 0 {
			t.Errorf("the script goes on for %s:\n%s", who, out)
		}
	}
	if out, status := r.types(strings.ReplaceAll(script, "100000", "1")); status == 0 {
		t.Errorf("the script goes on where the list of open runs may be cut:\n%s", out)
	}
}

// insertAs runs the statement of a page with a login. The newest run must come from it and succeed in the named queue.
func (b *testBundle) insertAs(t *testing.T, login, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), login)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	page, err := b.List(t.Context(), queue.Filter{DAG: "tenant-import"})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Queue != "tenant-acme" {
		t.Fatalf("%s\nmade %+v, %v", statement, page.Runs, err)
	}
	if got := b.await(t, page.Runs[0].ID); got != "succeeded import=succeeded" {
		t.Errorf("it ended as %s", got)
	}
}
