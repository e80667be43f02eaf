package cli

import (
	"errors"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestSignal_EndsACommandWithItsStatus(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		signal syscall.Signal
		exit   int
		stderr string
	}{
		"SIGINT":  {syscall.SIGINT, 130, "oarlock: interrupted\n"},
		"SIGTERM": {syscall.SIGTERM, 143, "oarlock: terminated\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent := listen(t)
			var stderr strings.Builder
			cmd := exec.Command("oarlock", "doctor", "--database-url", "postgres://ana@"+silent.Addr().String()+"/app?connect_timeout=60")
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := silent.Accept() // from now on it waits for an answer
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			failed, ok := errors.AsType[*exec.ExitError](cmd.Wait())
			if !ok || failed.ExitCode() != c.exit || stderr.String() != c.stderr {
				t.Errorf("got %v, stderr %q; want %d, %q", failed, stderr.String(), c.exit, c.stderr)
			}
		})
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
