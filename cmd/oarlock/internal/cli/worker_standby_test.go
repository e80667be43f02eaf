package cli

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// A worker that waits for another worker of its name reports that at /readyz and to systemd. Afterwards it leaves the
// address to its driver process.
func TestStandby_SaysWhyAWorkerWaits(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	why := guarded{"w1", "/var/lib/oarlock"}.sentence(supervise.Event{Kind: supervise.Waiting, PID: 8735})
	const want = "another worker named w1 runs on this host (pid 8735) with state_dir /var/lib/oarlock: this worker waits until the other worker ends; give this worker another --name"
	if why != want {
		t.Errorf("it says %q", why)
	}
	// An address that only this test uses, so that no other process takes its port in the meantime.
	s := &standby{listen: "127.93.17.5:0", systemd: socket, log: slog.New(slog.DiscardHandler)}
	s.begin(why)
	told := make([]byte, 1000)
	if err := systemd.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := systemd.Read(told); err != nil || string(told[:n]) != "STATUS=starting, "+want {
		t.Errorf("systemd hears %q: %v", told[:n], err)
	}
	address := s.server.Addr()
	for path, status := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/livez": http.StatusOK} {
		code, body := get(t, "http://"+address+path)
		if code != status || path == "/readyz" && strings.TrimSpace(body) != want {
			t.Errorf("%s says %d %q", path, code, body)
		}
	}
	s.end()
	s.end()
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the address is not free: %v", err)
	}
	again.Close()
}

func get(t *testing.T, address string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// A taken address and an absent systemd delay nothing.
func TestStandby_DoesWithoutAnAddressAndSystemd(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var said strings.Builder
	s := &standby{listen: other.Addr().String(), systemd: "/nowhere/notify", log: slog.New(slog.NewTextHandler(&said, nil))}
	s.begin("why")
	s.end()
	for _, words := range []string{"this worker answers no health check while it waits", "systemd does not get the state of this worker"} {
		if !strings.Contains(said.String(), words) {
			t.Errorf("it does not say %q: %s", words, said.String())
		}
	}
}
