package pglocal

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

const (
	helperEnv = "OARLOCK_TEST_PG_USER"
	deadline  = 2 * time.Minute // generous: the machine may be busy
)

// TestMain lets the test binary play a user of a server, in a process that can be killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		playUser(Config{Dir: dir, Throwaway: os.Getenv(helperEnv+"_THROWAWAY") != ""})
	}
	code := m.Run()
	if template.dir != "" {
		_ = os.RemoveAll(template.dir)
	}
	os.Exit(code)
}

// playUser starts the server, prints its process ID, and stays until its stdin ends.
func playUser(c Config) {
	s, err := Start(context.Background(), c)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(s.PID())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if err := s.Stop(context.Background()); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func userCommand(t *testing.T, dir string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), helperEnv+"="+dir), env...)
	_, err = cmd.StdinPipe()
	must(t, err)
	return cmd
}

// startUser runs another process that uses the server in dir; the returned command can be killed.
func startUser(t *testing.T, dir string, env ...string) (cmd *exec.Cmd, pid int) {
	t.Helper()
	cmd = userCommand(t, dir, env...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	pid, err = strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("helper process: %s", line)
	}
	return cmd, pid
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newDir returns an empty folder that the server's user may enter. As root it may not enter t.TempDir.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(FastTempDir(), "oarlock-t-")
	must(t, err)
	must(t, os.Chmod(dir, 0o777|os.ModeSticky))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

var template struct {
	once sync.Once
	dir  string
	err  error
}

// madeDir returns a state folder with a server that has run before. It is a copy, because initdb is slow.
func madeDir(t *testing.T) string {
	t.Helper()
	return madeIn(t, newDir(t))
}

// madeIn puts such a folder into another folder. It prefers a port that the other copies do not use.
func madeIn(t *testing.T, parent string) string {
	t.Helper()
	template.once.Do(func() {
		template.dir, template.err = os.MkdirTemp(FastTempDir(), "oarlock-t-")
		if template.err != nil {
			return
		}
		if template.err = os.Chmod(template.dir, 0o755); template.err != nil {
			return
		}
		var s *Server
		if s, template.err = Start(context.Background(), Config{Dir: template.dir + "/pg"}); template.err == nil {
			template.err = s.Stop(context.Background())
		}
	})
	must(t, template.err)
	dir := filepath.Join(parent, "pg")
	if out, err := exec.Command("cp", "-a", template.dir+"/pg", dir).CombinedOutput(); err != nil {
		t.Fatalf("copy: %s", out)
	}
	var st state
	text, err := os.ReadFile(filepath.Join(dir, "state.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &st))
	st.Port, err = freePort()
	must(t, err)
	text, err = json.Marshal(st)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "state.json"), text, 0o600))
	return dir
}

func startServer(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), c)
	must(t, err)
	t.Cleanup(func() { stopServer(t, s) })
	return s
}

func stopServer(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	must(t, s.Stop(ctx))
}

// eventually waits for a condition that another process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return ok(), nil }); err != nil {
		t.Fatalf("waited in vain: %s", what)
	}
}

func gone(pid int) func() bool { return func() bool { return !alive(pid) } }

func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(context.Background())
	var out string
	must(t, conn.QueryRow(t.Context(), sql).Scan(&out))
	return out
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), sql)
	must(t, err)
}

// processesWith lists the processes with a command line that contains text.
func processesWith(t *testing.T, text string) map[int]string {
	t.Helper()
	found := map[int]string{}
	err := procfs.Walk(func(pid int, _ uint64) {
		args, err := procfs.Cmdline(pid)
		if line := strings.ReplaceAll(string(args), "\x00", " "); err == nil && strings.Contains(line, text) {
			found[pid] = line
		}
	})
	if err != nil {
		t.Skip("needs /proc")
	}
	return found
}

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: " + why)
	}
}
