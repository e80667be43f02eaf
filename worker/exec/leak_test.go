package exec

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// suite is in the environment of every process that the tests start.
var suite = fmt.Sprintf("tests-%d-%s", os.Getpid(), strconv.FormatInt(time.Now().UnixNano(), 36))

// verify runs the tests, and fails if they leave goroutines, open files, processes or cgroups.
func verify(m *testing.M) {
	if r, w, err := os.Pipe(); err == nil { // the runtime keeps open what it opens for its first pipe
		r.Close()
		w.Close()
	}
	files, processes := openFiles(), started()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		left := slices.Concat(more("file", files, openFiles), more("process", processes, started), more("cgroup", nil, cgroups))
		for _, l := range left {
			fmt.Fprintln(os.Stderr, l)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// more lists what is there now and was not there before, after a wait for processes that are about to end.
func more(what string, before []string, now func() []string) (left []string) {
	for end, tick := time.Now().Add(5*time.Second), time.NewTicker(10*time.Millisecond); ; <-tick.C {
		left = nil
		rest := slices.Clone(before)
		for _, name := range now() {
			if i := slices.Index(rest, name); i >= 0 {
				rest = slices.Delete(rest, i, i+1)
			} else {
				left = append(left, "leaked "+what+": "+name)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

var inode = regexp.MustCompile(`\[[0-9]+\]`)

// openFiles returns the open files of this process, by their targets.
func openFiles() (names []string) {
	files, _ := procfs.Files(self)
	for _, to := range files {
		names = append(names, inode.ReplaceAllString(to, ""))
	}
	return names
}

// started returns the children of this process, zombies included, and other processes that carry the name of this suite.
func started() (names []string) {
	listed, _ := listProcesses()
	for pid := range listed {
		stat, err := procfs.ReadStat(pid)
		environ, _ := procfs.Environ(pid)
		ours := bytes.Contains(environ, []byte("OARLOCK_WORKER_ID="+suite)) && stat.Live
		if err == nil && pid != self && (ours || stat.Parent == self) {
			name, _ := procfs.Name(pid)
			names = append(names, fmt.Sprintf("%d %s, child of %d", pid, strings.TrimSpace(name), stat.Parent))
		}
	}
	return names
}

// cgroups returns the cgroups that executors of this process made.
func cgroups() []string {
	own := OwnCgroup()
	if own == "" {
		return nil
	}
	made, _ := filepath.Glob(filepath.Join(own, fmt.Sprintf("oarlock-%d-*", self)))
	return made
}
