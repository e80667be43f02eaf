package notify

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// sendTimeout bounds how long one message waits for room in systemd's socket.
const sendTimeout = time.Second

// Environment is what systemd asks of a service.
type Environment struct {
	Socket   string        // a path, or an abstract name that begins with @; "": nobody listens
	Watchdog time.Duration // how often a sign of life is due; 0: never
}

// FromEnv reads what systemd asks of this process, or of its parent: a guard's driver process answers for both.
func FromEnv() Environment {
	e := Environment{Socket: os.Getenv("NOTIFY_SOCKET")}
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) && pid != strconv.Itoa(os.Getppid()) {
		return e
	}
	if micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && micros > 0 && micros < int64(maxWatchdog/time.Microsecond) {
		e.Watchdog = time.Duration(micros) * time.Microsecond
	}
	return e
}

// maxWatchdog: a longer one is none.
const maxWatchdog = 24 * time.Hour

// socket is where systemd listens.
type socket struct{ conn *net.UnixConn }

// open connects. Go writes a name that begins with @ as an abstract one.
func open(name string) (*socket, error) {
	if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "@") {
		return nil, fmt.Errorf("notify systemd: NOTIFY_SOCKET=%s is neither a path nor an abstract name", name)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("notify systemd: %w", err)
	}
	return &socket{conn}, nil
}

// Tell sends lines in one message, from whoever is no worker yet. Without a socket it does nothing.
func Tell(name string, lines ...string) error {
	if name == "" {
		return nil
	}
	s, err := open(name)
	if err != nil {
		return err
	}
	defer s.close()
	return s.send(lines...)
}

// send sends lines in one message.
func (s *socket) send(lines ...string) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	if _, err := s.conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

func (s *socket) close() { _ = s.conn.Close() }
