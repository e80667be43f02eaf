package pglocal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeBinaries writes scripts that print a version.
func fakeBinaries(t *testing.T, dir string, version string) string {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version)
	for _, name := range []string{"postgres", "initdb"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	return dir
}

func TestFind_PrefersTheNamedFolder(t *testing.T) {
	dir := fakeBinaries(t, t.TempDir(), "17beta1 (Debian 17~beta1-1)")
	t.Setenv("PATH", fakeBinaries(t, t.TempDir(), "16.2")+":/bin:/usr/bin")
	t.Setenv(binEnv, dir)
	b, err := Find(t.Context())
	if err != nil || b != (Binaries{Dir: dir, Version: 17}) {
		t.Errorf("got %v, %v", b, err)
	}
}

func TestFind_NeverIgnoresAWrongNamedFolder(t *testing.T) {
	made := madeDir(t)
	t.Setenv("PATH", fakeBinaries(t, t.TempDir(), "16.2")+":/bin:/usr/bin")
	t.Setenv(binEnv, "/nowhere")
	_, err := Find(t.Context())
	wantError(t, err, ErrBinaries, binEnv+"=/nowhere", "unset OARLOCK_PG_BIN")
	_, err = Start(t.Context(), Config{Dir: made})
	wantError(t, err, ErrBinaries, binEnv+"=/nowhere", "unset OARLOCK_PG_BIN")
}

func TestFind_FollowsALinkOnPATHToWhereInitdbIs(t *testing.T) {
	dir, links := fakeBinaries(t, t.TempDir(), "16.2"), t.TempDir()
	must(t, os.Symlink(filepath.Join(dir, "postgres"), filepath.Join(links, "postgres")))
	t.Setenv(binEnv, "")
	t.Setenv("PATH", links+":/bin:/usr/bin")
	b, err := Find(t.Context())
	if err != nil || b != (Binaries{Dir: dir, Version: 16}) {
		t.Errorf("got %v, %v", b, err)
	}
}

func TestFind_SkipsWhatIsTooOldOrIncomplete(t *testing.T) {
	old, half, good := fakeBinaries(t, t.TempDir(), "13.9"), fakeBinaries(t, t.TempDir(), "16.1"), fakeBinaries(t, t.TempDir(), "15.1")
	must(t, os.Remove(filepath.Join(half, "initdb")))
	for _, dir := range []string{old, half} {
		if b, err := inspect(t.Context(), dir); err == nil {
			t.Errorf("took %v", b)
		}
	}
	t.Setenv(binEnv, "")
	t.Setenv("PATH", old+":/bin:/usr/bin")
	if b, err := Find(t.Context()); err == nil && b.Dir == old {
		t.Errorf("took %v", b)
	}
	if b, err := inspect(t.Context(), good); err != nil || b.Version != 15 {
		t.Errorf("got %v, %v", b, err)
	}
}

func TestFind_MissingNamesTheInstallCommand(t *testing.T) {
	err := error(&MissingError{Command: "apt-get install -y postgresql", Why: "PostgreSQL 9 in /old is too old"})
	for _, want := range []string{"PostgreSQL 14 or newer was not found", "too old", "apt-get install"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	tools := t.TempDir()
	must(t, os.WriteFile(filepath.Join(tools, "dnf"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", tools)
	if got := installCommand(); !strings.HasSuffix(got, "dnf install -y postgresql-server") {
		t.Error(got)
	}
	t.Setenv("PATH", t.TempDir())
	if got := installCommand(); !strings.Contains(got, "postgresql.org") {
		t.Error(got)
	}
}

func TestVersioned_ListsTheNewestFirst(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	want := []string{
		"usr/pgsql-18/bin", "opt/homebrew/opt/postgresql@17/bin", "usr/libexec/postgresql16",
		"usr/lib/postgresql/15/bin", "usr/lib/postgresql/9.6/bin",
	}
	for _, dir := range want {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	got := versioned(root)
	for i := range got {
		got[i], _ = filepath.Rel(root, got[i])
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestStateDir_FollowsTheEnvironment(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/elsewhere")
	if dir, err := StateDir(); err != nil || dir != "/elsewhere/oarlock/pg" {
		t.Error(dir, err)
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "/home/ann")
	want := "/home/ann/.local/state/oarlock/pg"
	if os.Geteuid() == 0 {
		want = "/var/lib/oarlock/pg"
	}
	if dir, err := StateDir(); err != nil || dir != want {
		t.Error(dir, err)
	}
}

// The machine has no C.UTF-8, and the user's own locale does not exist.
func TestStart_DoesWithoutTheLocaleItWouldLike(t *testing.T) {
	installed, err := Find(t.Context())
	must(t, err)
	dir := newDir(t)
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in *C.UTF-8*) echo 'initdb: error: invalid locale name "C.UTF-8"' >&2; exit 1;; esac
exec %s/initdb "$@"
`, installed.Dir)
	must(t, os.WriteFile(filepath.Join(dir, "initdb"), []byte(script), 0o755))
	must(t, os.Symlink(filepath.Join(installed.Dir, "postgres"), filepath.Join(dir, "postgres")))
	t.Setenv(binEnv, dir)
	t.Setenv("LC_ALL", "xx_YY.UTF-8")
	s := startServer(t, Config{Throwaway: true})
	if got := query(t, s.URL(""), "SELECT datcollate || ' ' || current_setting('server_encoding') FROM pg_database WHERE datname = 'postgres'"); got != "C UTF8" {
		t.Error(got)
	}
}

func TestFastTempDir_LeavesTheChoiceToTMPDIR(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	if dir := FastTempDir(); dir != TempDir() {
		t.Error(dir)
	}
	if roomy("/") {
		t.Error("a disk is taken for memory")
	}
	for text, want := range map[string]uint64{"123\n": 123, "max\n": 0, "": 0} {
		if got := number([]byte(text)); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}
