package pgcluster

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/migrations"
)

// copyTemplate fills a node that has not run yet with the data of the template. The first caller of a `go test` makes the
// template. copyTemplate reports whether there is a template: with a server from elsewhere there is no folder for one.
func (n *Node) copyTemplate(tb testing.TB) bool {
	tb.Helper()
	run := pgtest.RunFolder(tb)
	if run == "" {
		return false
	}
	template := filepath.Join(run, "node")
	lock, err := os.OpenFile(template+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer lock.Close() // also unlocks the file
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		tb.Fatalf("lock the template: %v", err)
	}
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		makeTemplate(tb, template)
	}
	if err := os.Mkdir(n.state(), 0o711); err != nil { // the server's user must get through
		tb.Fatal(err)
	}
	copyFile(tb, filepath.Join(template, "state.json"), filepath.Join(n.state(), "state.json"))
	copyFolder(tb, filepath.Join(template, "data"), filepath.Join(n.state(), "data"))
	return true
}

// makeTemplate fills a draft and renames it, so that the template is either complete or absent. All its files belong to
// the owner of the data, because the supervisor of the test server runs as that user and removes them.
func makeTemplate(tb testing.TB, template string) {
	tb.Helper()
	n := newNode(tb, pglocal.FastTempDir(), nil)
	n.make(tb)
	n.Stop(tb)
	draft, data := template+".draft", filepath.Join(n.state(), "data")
	if err := errors.Join(os.RemoveAll(draft), os.Mkdir(draft, 0o700)); err != nil {
		tb.Fatal(err)
	}
	copyState(tb, filepath.Join(n.state(), "state.json"), filepath.Join(draft, "state.json"))
	copyFolder(tb, data, filepath.Join(draft, "data"))
	own(tb, draft, data)
	if err := os.Rename(draft, template); err != nil {
		tb.Fatal(err)
	}
}

// make creates a node's data by initdb and the migrations, and leaves the node running.
func (n *Node) make(tb testing.TB) {
	tb.Helper()
	n.Start(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	if _, err := migrations.Up(ctx, n.URL()); err != nil {
		tb.Fatalf("migrate: %v", err)
	}
}

// copyState copies what pglocal keeps, without the port: a node that starts with another node's port might take it while
// that node is down.
func copyState(tb testing.TB, from, to string) {
	tb.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		tb.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(text, &state); err != nil {
		tb.Fatal(err)
	}
	delete(state, "port")
	if text, err = json.Marshal(state); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		tb.Fatal(err)
	}
}

func copyFolder(tb testing.TB, from, to string) {
	tb.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		tb.Fatalf("copy %s: %v: %s", from, err, out)
	}
}
