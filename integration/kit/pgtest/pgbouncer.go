package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/pglocal"
)

// pgBouncerEnv names the program. If it is set, tests that want PgBouncer fail without it; otherwise they skip.
const pgBouncerEnv = "OARLOCK_TEST_PGBOUNCER"

// PgBouncer configures the real pooler for one test. The zero value means the settings of Debian's file.
type PgBouncer struct {
	Mode   string   // pool_mode; "": session
	Size   int      // default_pool_size; 0: 20
	Ignore string   // ignore_startup_parameters; "": extra_float_digits, the usual value
	Lines  []string // further lines of [pgbouncer]
	Named  bool     // it has a line only for the database of the address; else for all databases
	Logins []string // URLs of users in addition to the user of the address
}

// Start runs PgBouncer in front of the server of address until the test ends, and returns a URL that leads through it.
func (b PgBouncer) Start(tb testing.TB, address string) string {
	tb.Helper()
	program := findPgBouncer(tb)
	dir, err := os.MkdirTemp(pglocal.FastTempDir(), "oarlock-pgbouncer-")
	if err != nil {
		tb.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	tb.Cleanup(func() {
		if text, err := os.ReadFile(log); err == nil && tb.Failed() {
			tb.Logf("PgBouncer said:\n%s", text)
		}
		_ = os.RemoveAll(dir)
	})
	for range bouncerTries {
		port := freePort(tb)
		b.write(tb, dir, address, port)
		stop := keep(tb, program, dir, log)
		if isUp(tb, log) {
			tb.Cleanup(stop)
			return b.through(tb, address, port)
		}
		stop() // another process took the port
	}
	text, _ := os.ReadFile(log)
	tb.Fatalf("PgBouncer does not start:\n%s", text)
	return ""
}

const (
	bouncerTries    = 5
	bouncerPatience = 10 * time.Second
)

// findPgBouncer looks in the folders where packages put the program, which are not on every user's PATH.
func findPgBouncer(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv(pgBouncerEnv); path != "" {
		return path
	}
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path
	}
	for _, path := range []string{"/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer", "/usr/local/bin/pgbouncer", "/opt/homebrew/bin/pgbouncer"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	tb.Skip("needs PgBouncer: on Debian, apt-get install pgbouncer, or tools/ensure-pgbouncer as root")
	return ""
}

// write makes the files, and gives them to the user that runs PgBouncer.
func (b PgBouncer) write(tb testing.TB, dir, address string, port int) {
	tb.Helper()
	server, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	database := "*"
	if b.Named {
		database = strings.TrimPrefix(server.Path, "/")
	}
	lines := append([]string{
		"[databases]", database + " = host=" + server.Hostname() + " port=" + server.Port(),
		"[pgbouncer]", "listen_addr = 127.0.0.1", "listen_port = " + strconv.Itoa(port), "unix_socket_dir =",
		"auth_type = trust", "auth_file = " + filepath.Join(dir, "users"),
		"pool_mode = " + cmp.Or(b.Mode, "session"), "default_pool_size = " + strconv.Itoa(cmp.Or(b.Size, 20)),
		"ignore_startup_parameters = " + cmp.Or(b.Ignore, "extra_float_digits"),
	}, b.Lines...)
	var users []string
	for _, login := range append([]string{address}, b.Logins...) {
		u, err := url.Parse(login)
		if err != nil {
			tb.Fatal(err)
		}
		password, _ := u.User.Password()
		users = append(users, fmt.Sprintf("%q %q", u.User.Username(), password))
	}
	owner := unprivileged(tb)
	for name, text := range map[string][]string{"ini": lines, "users": users, "log": nil} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(append(text, ""), "\n")), 0o600); err != nil {
			tb.Fatal(err)
		}
		if owner != nil {
			if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // its user must get through
		tb.Fatal(err)
	}
}

// unprivileged returns a user for programs that refuse to run as root; nil: this process is not root.
func unprivileged(tb testing.TB) *syscall.Credential {
	tb.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		tb.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid) // Unix has numbers there
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// keeper ends the program when its standard input closes. This process holds the other end, so the program ends with it
// in any case.
const keeper = `"$@" & program=$!; cat >/dev/null; kill -KILL "$program"; wait "$program"`

// keep runs the program until stop is called.
func keep(tb testing.TB, program, dir, log string) (stop func()) {
	tb.Helper()
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), "/bin/sh", "-c", keeper, "sh", program, filepath.Join(dir, "ini"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: unprivileged(tb)}
	life, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	return func() {
		_ = life.Close()
		_ = cmd.Wait() // it was killed
	}
}

// isUp waits until the log shows that PgBouncer works, which it shows once it has the port.
func isUp(tb testing.TB, log string) bool {
	tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(bouncerPatience); time.Now().Before(end); <-tick.C {
		text, _ := os.ReadFile(log)
		if bytes.Contains(text, []byte("process up")) {
			return true
		}
		if bytes.Contains(text, []byte("FATAL")) || bytes.Contains(text, []byte("ERROR")) {
			return false
		}
	}
	return false
}

func (b PgBouncer) through(tb testing.TB, address string, port int) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host, u.RawQuery = bouncerAddress(port), "sslmode=disable"
	return u.String()
}

func bouncerAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", bouncerAddress(0))
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens by TCP
}
