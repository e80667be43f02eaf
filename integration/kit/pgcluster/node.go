package pgcluster

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/pglocal"
)

// patience bounds every wait for a server.
const patience = time.Minute

// Node is a Postgres server of one test.
type Node struct {
	dir      string
	settings map[string]string
	port     int             // 0: the node has not run yet
	server   *pglocal.Server // nil: the node does not run
}

// basics make a server that starts fast and can have a standby. fsync may be off, because a crash of the server alone
// loses nothing that the kernel has. Plans are not compiled, because that would take most of a test's computing time.
var basics = map[string]string{
	"fsync":                   "off",
	"jit_above_cost":          "-1",
	"max_wal_senders":         "4",
	"wal_level":               "replica",
	"hot_standby":             "on",
	"log_min_messages":        "fatal",
	"log_min_error_statement": "panic",
}

// Start makes a primary with Oarlock's schema in database postgres. All nodes that Start makes share one system
// identifier.
func Start(tb testing.TB, settings map[string]string) *Node {
	tb.Helper()
	return StartIn(tb, pglocal.FastTempDir(), settings)
}

// StartIn makes a primary with its data below a folder, for instance on a file system that is about to be full.
func StartIn(tb testing.TB, folder string, settings map[string]string) *Node {
	tb.Helper()
	n := newNode(tb, folder, settings)
	if !n.copyTemplate(tb) {
		n.make(tb)
		return n
	}
	n.Start(tb)
	return n
}

// StartEmpty makes a primary with only what initdb creates, and with a system identifier of its own.
func StartEmpty(tb testing.TB, settings map[string]string) *Node {
	tb.Helper()
	n := newNode(tb, pglocal.FastTempDir(), settings)
	n.Start(tb)
	return n
}

func newNode(tb testing.TB, folder string, settings map[string]string) *Node {
	tb.Helper()
	dir, err := os.MkdirTemp(folder, "oarlock-node-")
	if err != nil {
		tb.Fatalf("make a folder for a server: %v", err)
	}
	n := &Node{dir: dir, settings: maps.Clone(basics)}
	maps.Copy(n.settings, settings)
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the server's user must get through
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		n.Crash(tb)
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("remove a server: %v", err)
		}
	})
	return n
}

// state returns the folder that pglocal keeps.
func (n *Node) state() string { return filepath.Join(n.dir, "pg") }

// Start starts a node that was stopped or crashed, and waits until it answers.
func (n *Node) Start(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	server, err := pglocal.Start(ctx, pglocal.Config{Dir: n.state(), Port: n.port, Settings: n.settings})
	if err != nil {
		tb.Fatalf("start a server: %v", err)
	}
	n.server, n.port = server, server.Port()
}

// Stop shuts a node down in order: the server tells its clients and disconnects them.
func (n *Node) Stop(tb testing.TB) {
	tb.Helper()
	n.leave(tb)
}

// Crash ends a node at once, as the kernel would: every process of the node is killed without notice to its clients.
func (n *Node) Crash(tb testing.TB) {
	tb.Helper()
	if n.server == nil {
		return
	}
	_ = unix.Kill(n.server.PID(), unix.SIGQUIT) // immediate shutdown: its processes end without cleaning up
	n.leave(tb)
}

func (n *Node) leave(tb testing.TB) {
	tb.Helper()
	if n.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
	defer cancel()
	if err := n.server.Stop(ctx); err != nil {
		tb.Errorf("stop a server: %v", err)
	}
	n.server = nil
}

// Answers reports whether the node accepts connections.
func (n *Node) Answers(tb testing.TB) bool {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, n.URL())
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

// PID returns the process id of the node.
func (n *Node) PID() int { return n.server.PID() }

// URL returns the address of database postgres of the node, for a superuser.
func (n *Node) URL() string { return n.server.URL("") }
