package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager listens as systemd does.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func listen(t *testing.T, name string) *manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &manager{t, conn}
}

// next is the next message, by lines.
func (m *manager) next() []string {
	m.t.Helper()
	buffer := make([]byte, 4096)
	if err := m.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		m.t.Fatal(err)
	}
	n, err := m.conn.Read(buffer)
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.Split(string(buffer[:n]), "\n")
}

// until reads messages up to one that has a line.
func (m *manager) until(line string) (all []string) {
	m.t.Helper()
	for range 1000 {
		all = append(all, m.next()...)
		if slices.Contains(all, line) {
			return all
		}
	}
	m.t.Fatalf("%q does not come", line)
	return nil
}

// patient is a worker with a status that the test sets.
type patient struct {
	mu sync.Mutex
	s  worker.Status
}

func (p *patient) status() worker.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s
}

func (p *patient) set(change func(*worker.Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.s)
}

func starting() *patient {
	return &patient{s: worker.Status{Phase: worker.Starting, Since: time.Now(), RenewEvery: time.Hour, Slots: worker.SlotStats{Slots: 4, Free: 3}}}
}

func lives(s *worker.Status) {
	s.Phase, s.Ticked, s.Soft, s.Runs = worker.Live, time.Now(), boottime.Now()+time.Hour, 2
}

func TestRun_TellsOfAWorkersLife(t *testing.T) {
	t.Parallel()
	for _, name := range []string{filepath.Join(t.TempDir(), "s"), fmt.Sprintf("@oarlock-test-%d", os.Getpid())} {
		m, p := listen(t, name), starting()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		c := Config{Environment: Environment{Socket: name, Watchdog: 3 * time.Millisecond}, Status: p.status, look: time.Millisecond}
		go func() { ended <- Run(ctx, c) }()
		if first := m.until("WATCHDOG=1"); slices.Contains(first, "READY=1") || first[0] != "STATUS=starting" {
			t.Errorf("%s: begins with %v", name, first)
		}
		p.set(lives)
		if got := m.until("STATUS=live: 2 runs, 1 of 4 slots in use"); !slices.Contains(got, "READY=1") || slices.Contains(got, "STOPPING=1") {
			t.Errorf("%s: once live %v", name, got)
		}
		m.until("WATCHDOG=1")
		p.set(func(s *worker.Status) { s.Phase = worker.Draining })
		if got := m.until("STATUS=draining: 2 runs, 1 of 4 slots in use"); !slices.Contains(got, "STOPPING=1") || slices.Contains(got, "READY=1") {
			t.Errorf("%s: once draining %v", name, got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestRun_LetsTheWatchdogStarveForALoopThatIsStuck(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "s")
	m, p := listen(t, name), starting()
	p.set(lives)
	p.set(func(s *worker.Status) { s.Session.Trying = time.Hour })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := Config{Environment: Environment{Socket: name, Watchdog: 3 * time.Millisecond}, Status: p.status, look: time.Millisecond}
	go func() { ended <- Run(ctx, c) }()
	got := m.until("STATUS=stuck: the journal has been stuck for 1h0m0s")
	p.set(func(s *worker.Status) { s.Session.Trying = time.Hour + time.Second })
	got = append(got, m.until("STATUS=stuck: the journal has been stuck for 1h0m1s")...)
	if slices.Contains(got, "WATCHDOG=1") {
		t.Errorf("the watchdog is fed: %v", got)
	}
	p.set(func(s *worker.Status) { s.Session.Trying = 0 })
	m.until("WATCHDOG=1")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := m.until("STOPPING=1"); slices.Contains(got, "READY=1") {
		t.Errorf("at the end %v", got)
	}
}

func TestNotifier_SaysAgainWhatWasNotHeard(t *testing.T) {
	t.Parallel()
	p, fails := starting(), true
	p.set(lives)
	var sent []string
	n := &notifier{Config: Config{Status: p.status, Environment: Environment{Watchdog: time.Hour}, Log: silent}, send: func(lines ...string) error {
		if fails {
			return errors.New("no room")
		}
		sent = append(sent, lines...)
		return nil
	}}
	now := time.Now()
	n.look(now)
	fails = false
	n.look(now)
	n.look(now)
	want := []string{"READY=1", "STATUS=live: 2 runs, 1 of 4 slots in use", "WATCHDOG=1"}
	if !slices.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}

func TestNotifier_TellsWhatIsNoNewsNowAndThen(t *testing.T) {
	t.Parallel()
	p := starting()
	p.set(lives)
	var sent []string
	n := &notifier{Config: Config{Status: p.status, Log: silent}, send: func(lines ...string) error {
		sent = append(sent, lines...)
		return nil
	}}
	start := time.Now()
	for i := range 100 { // ten seconds
		p.set(func(s *worker.Status) { s.Runs = i })
		n.look(start.Add(time.Duration(i) * 100 * time.Millisecond))
	}
	if len(sent) != 3 { // ready, and a status at once and after five seconds
		t.Errorf("sent %q", sent)
	}
}

func TestRun_DoesNothingWithoutASocket(t *testing.T) {
	t.Parallel()
	if err := Run(t.Context(), Config{}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"vsock:2:1234", "relative", filepath.Join(t.TempDir(), "nobody")} {
		if err := Run(t.Context(), Config{Environment: Environment{Socket: name}, Status: starting().status}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestFromEnv_ReadsWhatIsMeantForThisProcessOrItsGuard(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "@s")
	for _, tt := range []struct {
		pid, micros string
		want        time.Duration
	}{
		{"", "1500000", 1500 * time.Millisecond},
		{fmt.Sprint(os.Getpid()), "1500000", 1500 * time.Millisecond},
		{fmt.Sprint(os.Getppid()), "1500000", 1500 * time.Millisecond},
		{"999999999", "1500000", 0},
		{"", "", 0},
		{"", "-5", 0},
		{"", "x", 0},
		{"", "9223372036854775807", 0},
	} {
		t.Setenv("WATCHDOG_PID", tt.pid)
		t.Setenv("WATCHDOG_USEC", tt.micros)
		if got := FromEnv(); got.Watchdog != tt.want || got.Socket != "@s" {
			t.Errorf("pid %q, %q: %+v", tt.pid, tt.micros, got)
		}
	}
}

var silent = slog.New(slog.DiscardHandler)
