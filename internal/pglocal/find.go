package pglocal

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	binEnv   = "OARLOCK_PG_BIN"
	minMajor = 14
)

// Binaries is a folder that holds initdb and postgres.
type Binaries struct {
	Dir     string
	Version int // major
}

// Find looks for PostgreSQL in $OARLOCK_PG_BIN, and only there if it is set. Otherwise it looks on PATH, where pg_config points, in
// the versioned folders of packagers such as Debian and Homebrew, newest first, and last, except for root, where [Start] keeps its
// download. It returns a *MissingError if there is none of version 14 or newer, and an *Error of kind ErrBinaries if OARLOCK_PG_BIN
// points to none.
func Find(ctx context.Context) (Binaries, error) {
	return find(ctx, func(Binaries) bool { return true })
}

// findMajor is Find for one major version, except that with OARLOCK_PG_BIN it returns the binaries there, of whatever version.
func findMajor(ctx context.Context, major int) (Binaries, error) {
	return find(ctx, func(b Binaries) bool { return b.Version == major })
}

func find(ctx context.Context, fits func(Binaries) bool) (Binaries, error) {
	if dir := os.Getenv(binEnv); dir != "" {
		b, err := inspect(ctx, dir)
		if err != nil {
			msg := fmt.Sprintf("%s=%s: %v", binEnv, dir, err)
			return Binaries{}, &Error{ErrBinaries, msg, "set OARLOCK_PG_BIN to the folder of initdb and postgres, or unset OARLOCK_PG_BIN", err}
		}
		return b, nil
	}
	missing := &MissingError{Command: installCommand()}
	for _, dir := range candidates(ctx) {
		b, err := inspect(ctx, dir)
		if err == nil && fits(b) {
			return b, nil
		}
		if err != nil && missing.Why == "" {
			missing.Why = err.Error()
		}
	}
	return Binaries{}, missing
}

func candidates(ctx context.Context) []string {
	var dirs []string
	if p, err := exec.LookPath("postgres"); err == nil {
		// initdb lies beside the real file, not always beside the link
		if target, err := filepath.EvalSymlinks(p); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
		dirs = append(dirs, filepath.Dir(p))
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	dirs = append(dirs, versioned("/")...)
	if dir, err := downloadDir(); err == nil && os.Geteuid() != 0 {
		dirs = append(dirs, filepath.Join(dir, "bin"))
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "postgres"))
		return err != nil
	})
}

var versionedPatterns = []string{
	"usr/lib/postgresql/*/bin",          // Debian
	"usr/pgsql-*/bin",                   // Red Hat, packages of the PostgreSQL project
	"usr/libexec/postgresql*",           // Alpine
	"usr/lib/postgresql*/bin",           // SUSE
	"opt/homebrew/opt/postgresql@*/bin", // Homebrew on ARM
	"usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
	"home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	"Applications/Postgres.app/Contents/Versions/*/bin",
}

var lastNumber = regexp.MustCompile(`(\d+)(?:\.\d+)?(?:/bin)?$`)

// versioned returns the folders below root where packagers put PostgreSQL, as far as they exist, newest major version first.
func versioned(root string) []string {
	var dirs []string
	for _, pattern := range versionedPatterns {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // only a bad pattern fails
		dirs = append(dirs, found...)
	}
	major := func(dir string) int {
		m := lastNumber.FindStringSubmatch(dir)
		if m == nil {
			return 0
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(major(b), major(a)) })
	return dirs
}

var versionLine = regexp.MustCompile(`PostgreSQL\) (\d+)`)

// inspect returns the binaries in dir with their version. It fails if initdb or postgres is missing or does not run, or if the
// version is older than minMajor.
func inspect(ctx context.Context, dir string) (Binaries, error) {
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return Binaries{}, fmt.Errorf("there is no initdb in %s", dir)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("postgres in %s does not run: %w", dir, err)
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return Binaries{}, fmt.Errorf("postgres in %s does not print its version, but %q", dir, out)
	}
	major, _ := strconv.Atoi(string(m[1]))
	if major < minMajor {
		return Binaries{}, fmt.Errorf("PostgreSQL %d in %s is too old", major, dir)
	}
	return Binaries{Dir: dir, Version: major}, nil
}

var installers = []struct{ tool, command string }{
	{"apt-get", "apt-get install -y postgresql"},
	{"dnf", "dnf install -y postgresql-server"},
	{"apk", "apk add postgresql"},
	{"zypper", "zypper install -y postgresql-server"},
	{"pacman", "pacman -S --noconfirm postgresql"},
	{"brew", "brew install postgresql@17"},
}

// installCommand returns the command that installs PostgreSQL on this machine, with sudo unless this process is root. If it knows
// none of the machine's package managers, it names the download page instead.
func installCommand() string {
	for _, i := range installers {
		if _, err := exec.LookPath(i.tool); err != nil {
			continue
		}
		if os.Geteuid() == 0 || i.tool == "brew" {
			return i.command
		}
		return "sudo " + i.command
	}
	return "see https://www.postgresql.org/download/"
}
