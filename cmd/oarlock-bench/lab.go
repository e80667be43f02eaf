package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	createDatabaseSQL  = sql.Named("bench/create_database")
	dropDatabaseSQL    = sql.Named("bench/drop_database")
	createLoginSQL     = sql.Named("bench/create_login")
	countStatementsSQL = sql.Named("bench/count_statements")
)

const (
	templateName = "bench_template"
	loginName    = "bench_worker"
	closeTimeout = time.Minute
)

// serverSettings leave durability on. They keep checkpoints out of the rounds, since a checkpoint would slow a side by chance.
var serverSettings = map[string]string{
	"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
	"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min", "max_connections": "400",
	"commit_siblings": "0", // Postgres reads it only if commit_delay is set, as bench/slow_commits does
}

// countingSettings are for servers with the extension.
var countingSettings = map[string]string{
	"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_utility": "on", "pg_stat_statements.max": "10000",
}

// Lab is a private server, and what cases need besides it. It belongs to one goroutine.
type Lab struct {
	options  options
	machine  Machine
	say      func(format string, args ...any)
	dir      string
	server   *pglocal.Server
	counting bool
	admin    *pgx.Conn
	password string // password of the workers' login
	program  string // path of oarlock
	made     int    // number of databases made so far
}

// openLab starts a server, prepares its template, builds oarlock unless its path is given, and describes the machine. The caller
// must close the lab, but not after an error.
func openLab(ctx context.Context, o options, say func(string, ...any)) (l *Lab, err error) {
	l = &Lab{options: o, say: say, password: rand.Text()}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.dir, err = os.MkdirTemp("", "oarlock-bench-"); err != nil {
		return l, err
	}
	if err := l.start(ctx); err != nil {
		return l, err
	}
	if err := l.makeTemplate(ctx); err != nil {
		return l, err
	}
	if l.program, err = l.findProgram(ctx); err != nil {
		return l, err
	}
	l.machine, err = l.describe(ctx)
	return l, err
}

// start starts the server and connects to it. It sets l.counting if the server can count statements.
func (l *Lab) start(ctx context.Context) (err error) {
	if l.server, err = startServer(ctx, serverSettings, countingSettings, l.options.server); err == nil {
		l.counting = true
	} else if l.server, err = startServer(ctx, serverSettings, l.options.server); err != nil {
		return fmt.Errorf("start a server: %w", err)
	}
	l.admin, err = pgx.Connect(ctx, l.server.URL(""))
	return err
}

func startServer(ctx context.Context, settings ...map[string]string) (*pglocal.Server, error) {
	all := map[string]string{}
	for _, some := range settings {
		maps.Copy(all, some)
	}
	return pglocal.Start(ctx, pglocal.Config{Throwaway: true, Settings: all})
}

// makeTemplate makes the migrated database of which every case's databases are copies, and the login of the workers.
func (l *Lab) makeTemplate(ctx context.Context) error {
	if err := l.exec(ctx, createDatabaseSQL, "{name}", templateName, "{template}", "template1"); err != nil {
		return err
	}
	target := l.server.URL(templateName)
	if _, err := migrations.Up(ctx, target); err != nil {
		return err
	}
	if err := migrations.Roles(ctx, target); err != nil {
		return err
	}
	if l.counting {
		if err := l.within(ctx, target, countStatementsSQL); err != nil {
			return err
		}
	}
	return l.exec(ctx, createLoginSQL, "{name}", loginName, "{password}", l.password)
}

func (l *Lab) within(ctx context.Context, target, statement string) error {
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// exec sends a statement as administrator, after replacing words in it: words are pairs of an old and a new text. The statements
// make and drop databases and logins, and cannot have parameters.
func (l *Lab) exec(ctx context.Context, statement string, words ...string) error {
	_, err := l.admin.Exec(ctx, strings.NewReplacer(words...).Replace(statement))
	return err
}

// workerURL returns a database's URL for workers: their login has only the role for workers.
func (l *Lab) workerURL(database string) (string, error) {
	u, err := url.Parse(l.server.URL(database))
	if err != nil {
		return "", fmt.Errorf("read the server's URL: %w", err)
	}
	u.User = url.UserPassword(loginName, l.password)
	return u.String(), nil
}

// findProgram returns the absolute path of the oarlock to measure. If no path is given, it builds oarlock, without cgo, as oarlock
// is shipped.
func (l *Lab) findProgram(ctx context.Context) (string, error) {
	if l.options.program != "" {
		return filepath.Abs(l.options.program)
	}
	path := filepath.Join(l.dir, "oarlock")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", path, "github.com/oarlock-dev/oarlock/cmd/oarlock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build oarlock (or give --program): %w\n%s", err, out)
	}
	return path, nil
}

// count returns n, an amount of work, multiplied by the scale. The result is at least least, since a case needs that much.
func (l *Lab) count(n, least int) int { return max(int(float64(n)*l.options.scale), least) }

// span returns d multiplied by the scale, but at least least.
func (l *Lab) span(d, least time.Duration) time.Duration {
	return max(time.Duration(float64(d)*l.options.scale), least)
}

func (l *Lab) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	if l.admin != nil {
		errs = append(errs, l.admin.Close(ctx))
	}
	if l.server != nil {
		errs = append(errs, l.server.Stop(ctx))
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir)) //nolint:gosec // a folder that the lab made
	}
	return errors.Join(errs...)
}

var settingsSQL = sql.Named("bench/settings")

// Machine is the environment that figures depend on besides the code.
type Machine struct {
	CPU      string   `json:"cpu"`
	Cores    int      `json:"cores"`
	Memory   string   `json:"memory"`
	Kernel   string   `json:"kernel"`
	Load     string   `json:"load"` // load averages before the start
	Go       string   `json:"go"`
	Oarlock  string   `json:"oarlock"`
	Modules  []string `json:"modules"`
	Postgres []string `json:"postgres"` // settings and version
}

func (l *Lab) describe(ctx context.Context) (Machine, error) {
	m := Machine{
		CPU: after(procfs.Root+"/cpuinfo", "model name"), Cores: runtime.NumCPU(), Memory: after(procfs.Root+"/meminfo", "MemTotal"),
		Kernel: firstLine(procfs.Root + "/sys/kernel/osrelease"), Load: firstLine(procfs.Root + "/loadavg"), Go: runtime.Version(), Modules: modules(),
	}
	version, err := exec.CommandContext(ctx, l.program, "version").Output()
	if err != nil {
		return m, err
	}
	m.Oarlock, _, _ = strings.Cut(string(version), "\n")
	rows, err := l.admin.Query(ctx, settingsSQL)
	if err != nil {
		return m, err
	}
	m.Postgres, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return m, err
}

// modules returns the versions of River and pgx in this program, or nil if the program has no build information.
func modules() (versions []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/riverqueue/river", "github.com/jackc/pgx/v5":
			versions = append(versions, d.Path+" "+d.Version)
		}
	}
	return versions
}

// after returns the value behind the first "key:" of a file such as /proc/cpuinfo. It returns "" if the file cannot be read or has
// no such line.
func after(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
