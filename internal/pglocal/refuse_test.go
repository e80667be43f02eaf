package pglocal

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

func tryConnect(t *testing.T, url string) error {
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		err = conn.Close(context.Background())
	}
	return err
}

// wantError checks the kind of an error, and the text of its message and hint.
func wantError(t *testing.T, err, kind error, msg, hint string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, kind) {
		t.Fatalf("want %v, got %v", kind, err)
	}
	if !strings.Contains(e.Error(), msg) {
		t.Errorf("message %q does not say %q", e.Error(), msg)
	}
	if !strings.Contains(e.Hint(), hint) {
		t.Errorf("hint %q does not say %q", e.Hint(), hint)
	}
}

func TestStart_LeavesAFolderAloneThatIsNotOurs(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	must(t, os.WriteFile(filepath.Join(dir, "letter.txt"), []byte("dear"), 0o600))
	_, err := Start(t.Context(), Config{Dir: dir})
	wantError(t, err, ErrNotOurs, "letter.txt", "empty or a new folder")
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the folder was changed: %v", entries)
	}
}

func TestStart_RefusesAStateItCannotRead(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"damaged": "{", "from the future": `{"format": 2, "password": "x"}`} {
		dir := madeDir(t)
		must(t, os.WriteFile(filepath.Join(dir, "state.json"), []byte(content), 0o600))
		_, err := Start(t.Context(), Config{Dir: dir})
		if wantError(t, err, ErrNotOurs, "state.json", "restore the file"); t.Failed() {
			t.Log(name)
		}
	}
}

func TestStart_NamesTheVersionThatADataFolderNeeds(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	version := filepath.Join(dir, "data", "PG_VERSION")
	was, err := os.ReadFile(version)
	must(t, err)
	must(t, os.WriteFile(version, []byte("12\n"), 0o600))
	_, err = Start(t.Context(), Config{Dir: dir})
	wantError(t, err, ErrOtherVersion, "was made by PostgreSQL 12", "mv "+dir+"/data "+dir+"/data.12")
	must(t, os.WriteFile(version, was, 0o600))
	startServer(t, Config{Dir: dir}) // nothing was lost
}

func TestStart_RefusesADataFolderWithoutVersion(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	must(t, os.Remove(filepath.Join(dir, "data", "PG_VERSION")))
	_, err := Start(t.Context(), Config{Dir: dir})
	wantError(t, err, ErrNotOurs, "PG_VERSION", "move this folder away")
}

func TestStart_AsRootNeedsAFolderThatTheServersUserMayEnter(t *testing.T) {
	t.Parallel()
	needRoot(t, "others never change the user")
	dir := newDir(t)
	must(t, os.Chmod(dir, 0o700))
	_, err := Start(t.Context(), Config{Dir: filepath.Join(dir, "pg")})
	wantError(t, err, ErrUnreachable, dir, "XDG_STATE_HOME")
}

func TestStart_RefusesAFolderOfAnotherUser(t *testing.T) {
	t.Parallel()
	needRoot(t, "it gives a folder away")
	dir := newDir(t)
	must(t, os.Chown(dir, 12345, 12345))
	_, err := Start(t.Context(), Config{Dir: dir})
	wantError(t, err, ErrNotOurs, "belongs to another user", "new folder")
}

func TestStart_GivesUpWhenSomebodyElseIsStarting(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	lock, err := lockFile(t.Context(), filepath.Join(dir, "lock"))
	must(t, err)
	defer lock.close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*pollEvery)
	defer cancel()
	_, err = Start(ctx, Config{Dir: dir})
	wantError(t, err, ErrBusy, "starting or stopping", "")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestStart_OnAFullDiskSaysSo_AndLosesNothing(t *testing.T) {
	t.Parallel()
	needRoot(t, "it mounts a small tmpfs")
	small := func(size string) string {
		dir := newDir(t)
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size="+size); err != nil {
			t.Skip("needs mount: ", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		return dir
	}
	dir := small("20m")
	_, err := Start(t.Context(), Config{Dir: filepath.Join(dir, "pg")})
	wantError(t, err, ErrDiskFull, "No space left", "free some space")
	if _, err := os.Stat(filepath.Join(dir, "pg", "data.new")); err == nil {
		t.Error("half a data folder fills the disk")
	}

	dir = small("200m")
	s := startServer(t, Config{Dir: madeIn(t, dir)})
	execute(t, s.URL(""), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	stopServer(t, s)
	filler := filepath.Join(dir, "filler")
	_ = exec.Command("dd", "if=/dev/zero", "of="+filler, "bs=64k").Run() // until the disk is full
	_, err = Start(t.Context(), Config{Dir: dir + "/pg"})
	wantError(t, err, ErrDiskFull, "", "nothing was deleted")
	must(t, os.Remove(filler))
	s = startServer(t, Config{Dir: dir + "/pg"})
	if got := query(t, s.URL(""), "SELECT answer FROM kept"); got != "yes" {
		t.Error(got)
	}
	stopServer(t, s)
}

func TestDiagnose_KnowsWhatPostgreSQLSays(t *testing.T) {
	t.Parallel()
	for output, kind := range map[string]error{
		`FATAL:  could not write lock file "postmaster.pid": No space left on device`:                        ErrDiskFull,
		`FATAL:  lock file "postmaster.pid" already exists`:                                                  ErrBusy,
		"FATAL:  database files are incompatible with server\nDETAIL:  initialized by PostgreSQL version 14": ErrOtherVersion,
		`initdb: error: invalid locale name "C.UTF-8"`:                                                       ErrLocale,
		"FATAL:  database locale is incompatible with operating system":                                      ErrLocale,
		"LOG:  could not bind\nFATAL:  could not create any TCP/IP sockets":                                  errPortTaken,
		"FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use":                             errShmInUse,
		"LOG:  hello\n2026-01-01 UTC [1] FATAL:  something new\nLOG:  bye":                                   ErrFailed,
	} {
		err := diagnose("start", output, "", nil)
		if !errors.Is(err, kind) {
			t.Errorf("%q: got %v", output, err)
		}
		if strings.Contains(err.Error(), "LOG:") {
			t.Errorf("%q: unclear message %q", output, err)
		}
	}
}
