package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// settings trade durability for speed, since a throw-away server has nothing to lose. Plans are never compiled: compiling
// took two thirds of the CPU time of tests, because their tables have no statistics. The setting jit itself stays on, so
// that a test that a connection turns it off can fail.
var settings = map[string]string{
	"fsync":                   "off",
	"full_page_writes":        "off",
	"jit_above_cost":          "-1",
	"max_connections":         "300",
	"log_min_messages":        "fatal",
	"log_min_error_statement": "panic", // tests provoke errors on purpose
}

// startServer starts the server of this test run, or attaches to it.
func startServer(ctx context.Context) (*pglocal.Server, error) {
	if _, err := pglocal.Find(ctx); err != nil {
		return nil, err // no download in the middle of a test
	}
	pid, since, ok := goCommand()
	if !ok {
		pid, since = 0, strconv.Itoa(os.Getpid()) // this process gets a server of its own
	}
	return pglocal.Start(ctx, pglocal.Config{
		Throwaway: true,
		KeepFor:   pid,
		Dir:       filepath.Join(pglocal.FastTempDir(), fmt.Sprintf("oarlock-test-%d-%d-%s", os.Geteuid(), pid, since)),
		Settings:  settings,
	})
}

// goCommand returns the `go test` that started this process, and its start time, because the kernel reuses process ids.
func goCommand() (pid int, since string, ok bool) {
	pid = os.Getppid()
	name, since, err := process(pid)
	return pid, since, err == nil && filepath.Base(name) == "go"
}

func process(pid int) (name, since string, err error) {
	if stat, err := procfs.ReadStat(pid); err == nil {
		return stat.Name, strconv.FormatUint(stat.Start, 10), nil
	}
	out, err := exec.Command("ps", "-o", "lstart=,comm=", "-p", strconv.Itoa(pid)).Output()
	words := strings.Fields(string(out)) // Mon Jan 2 15:04:05 2006 /usr/local/go/bin/go
	if err != nil || len(words) < 6 {
		return "", "", errors.Join(err, fmt.Errorf("no process %d", pid))
	}
	return words[5], strings.NewReplacer(":", "", " ", "").Replace(strings.Join(words[1:5], "")), nil
}
