package pgcluster

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/sql"
)

// Standby copies a running primary and follows it. Commits of the primary do not wait for the standby, unless its setting
// synchronous_standby_names requires that.
func (n *Node) Standby(tb testing.TB) *Node {
	tb.Helper()
	s, _ := n.copied(tb, n.settings, "--write-recovery-conf")
	s.Start(tb)
	return s
}

// Restore makes a new primary from a base backup of a running one. It recovers to the moment of the backup, as a restore
// to a point in time does: it keeps the system identifier and begins a new timeline.
func (n *Node) Restore(tb testing.TB) *Node {
	tb.Helper()
	settings := maps.Clone(n.settings)
	settings["restore_command"], settings["recovery_target"], settings["recovery_target_action"] = "/bin/false", "immediate", "promote"
	s, data := n.copied(tb, settings)
	signal := filepath.Join(data, "recovery.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	own(tb, signal, data)
	s.Start(tb)
	s.wait(tb, sql.Named("pgcluster/is_primary"))
	return s
}

// copied returns a node that has not run yet, with the data of a base backup.
func (n *Node) copied(tb testing.TB, settings map[string]string, flags ...string) (s *Node, data string) {
	tb.Helper()
	s = newNode(tb, filepath.Dir(n.dir), settings) // a standby with lower limits than its primary would not start
	copyFile(tb, filepath.Join(n.state(), "state.json"), filepath.Join(s.state(), "state.json"))
	data = filepath.Join(s.state(), "data")
	n.backup(tb, data, flags...)
	own(tb, data, filepath.Join(n.state(), "data"))
	return s, data
}

// backup copies the data. A flag makes it also write down how to follow the primary.
func (n *Node) backup(tb testing.TB, into string, flags ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	bin, err := pglocal.Find(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(n.URL())
	if err != nil {
		tb.Fatal(err)
	}
	password, _ := u.User.Password()
	cmd := exec.CommandContext(ctx, filepath.Join(bin.Dir, "pg_basebackup"), append([]string{
		"--pgdata=" + into, "--wal-method=stream", "--checkpoint=fast", "--host=" + u.Hostname(), "--port=" + u.Port(), "--username=" + u.User.Username(),
	}, flags...)...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("copy the primary: %v: %s", err, out)
	}
}

// Cut lets a standby receive nothing more: what the primary commits from now on is lost when the standby is promoted.
func (n *Node) Cut(tb testing.TB) {
	tb.Helper()
	ask(tb, n, sql.Named("pgcluster/cut"))
	ask(tb, n, sql.Named("pgcluster/reload"))
	n.wait(tb, sql.Named("pgcluster/is_cut"))
}

func copyFile(tb testing.TB, from, to string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o711); err != nil {
		tb.Fatal(err)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil { //nolint:gosec // a folder of our own
		tb.Fatal(err)
	}
}

// own gives a folder to the owner of another folder.
func own(tb testing.TB, dir, like string) {
	tb.Helper()
	info, err := os.Stat(like)
	if err != nil {
		tb.Fatal(err)
	}
	of := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // Linux has it
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(of.Uid), int(of.Gid)) //nolint:gosec // a folder of our own
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// Promote makes a standby a primary, and waits until it accepts writes.
func (n *Node) Promote(tb testing.TB) {
	tb.Helper()
	ask(tb, n, sql.Named("pgcluster/promote"))
}

// Follow waits until a standby has replayed what the primary has written by now.
func (n *Node) Follow(tb testing.TB, primary *Node) {
	tb.Helper()
	position := ask(tb, primary, sql.Named("pgcluster/position"))
	n.wait(tb, sql.Named("pgcluster/replayed"), position)
}

// wait repeats a query until it returns true.
func (n *Node) wait(tb testing.TB, question string, args ...any) {
	tb.Helper()
	for end := time.Now().Add(patience); ask(tb, n, question, args...) != "true"; {
		if time.Now().After(end) {
			tb.Fatalf("waited in vain for %s", question)
		}
	}
}

// ask returns the first column of a statement's first row, "" for no row.
func ask(tb testing.TB, n *Node, statement string, args ...any) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, n.URL())
	if err != nil {
		tb.Fatalf("ask a server: %v", err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, statement, args...)
	if err != nil {
		tb.Fatalf("ask a server: %s: %v", statement, err)
	}
	answers, err := pgx.CollectRows(rows, pgx.RowTo[any])
	if err != nil {
		tb.Fatalf("ask a server: %s: %v", statement, err)
	}
	if len(answers) == 0 {
		return ""
	}
	return fmt.Sprint(answers[0])
}
