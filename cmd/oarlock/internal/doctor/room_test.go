package doctor

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/migrations"
)

// Every role that can examine a database can also make the test write.
func TestRoom_IsTriedByEachRole(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db := pgtest.New(t)
	var last string
	for _, role := range []string{"oarlock_owner", "oarlock_submit", "oarlock_read", "oarlock_admin", "oarlock_worker"} {
		last = db.Login(t, role)
		got := begin(t, last).room(t.Context())
		wantCheck(t, got, OK, "the check wrote 1 MB and rolled the write back; the database takes ")
		if !strings.Contains(got.Detail, "Oarlock ") || !strings.Contains(got.Detail, "log_chunks ") {
			t.Errorf("as %s it does not say what takes room: %s", role, got.Detail)
		}
	}
	execFile(t, db.Conn(t), "no_temp.sql")
	wantCheck(t, begin(t, last).room(t.Context()), Skip, "the check wrote nothing")
	x := begin(t, db.URL)
	x.facts.Standby = true
	wantCheck(t, x.room(t.Context()), Skip, "see the result of the check writable")
}

func TestRoom_FailsWhereTheDiskIsFull(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	disk := pgcluster.SmallDisk(t, 128<<20)
	node := pgcluster.Start(t, nil)
	address := databaseOn(t, node, disk)
	look := func() Check {
		report, err := Run(t.Context(), address, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return find(t, report, "room")
	}
	wantCheck(t, look(), OK, "the check wrote 1 MB")
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 256<<20), 0o600); err == nil {
		t.Fatal("the disk does not get full")
	}
	full := look()
	wantCheck(t, full, Fail, "the server accepts no write: ")
	if !strings.Contains(full.Detail, "No space left on device") {
		t.Errorf("it does not say why: %s", full.Detail)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	wantCheck(t, look(), OK, "the check wrote 1 MB")
}

// databaseOn makes a migrated database with its files in a folder. The server's WAL stays elsewhere.
func databaseOn(t *testing.T, node *pgcluster.Node, folder string) string {
	t.Helper()
	info, err := os.Stat(procfs.Path(node.PID(), ""))
	if err != nil {
		t.Fatal(err)
	}
	server := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(folder, int(server.Uid), int(server.Gid)); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), node.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, name := range []string{"small_tablespace.sql", "small_database.sql"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(string(text), "FOLDER", folder)); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(node.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/full_one"
	if _, err := migrations.Up(t.Context(), u.String()); err != nil {
		t.Fatal(err)
	}
	return u.String()
}
