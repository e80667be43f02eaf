package notify

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// sendTimeout bounds how long a message waits for room in systemd's socket.
const sendTimeout = time.Second

// Environment is the settings that systemd passes to a service.
type Environment struct {
	Socket   string        // a path, or an abstract name that begins with @; "": no notifications
	Watchdog time.Duration // interval of the watchdog; 0: there is none
}

// FromEnv returns the settings that systemd passed to this process or to its parent: a guard's driver process answers for both. It
// leaves out the watchdog if that is for another process, malformed, or maxWatchdog or longer.
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

// maxWatchdog bounds the watchdog interval. One of this length or longer means no watchdog.
const maxWatchdog = 24 * time.Hour

// socket is a connection to systemd's socket.
type socket struct{ conn *net.UnixConn }

// open connects to a socket of systemd, by its path, or by an abstract name that begins with @, as in package net. Any other name
// is an error. The caller must close the socket.
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

// Tell sends lines in one message to the socket of this name, see Environment.Socket. It is for a process without a running worker.
// If name is "" it does nothing.
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

// send sends lines in one message. It waits for room in systemd's socket, for sendTimeout at most.
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
