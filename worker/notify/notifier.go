package notify

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/health"
)

// How often a notifier examines the worker, and how often it sends a status with small changes.
const (
	lookEvery   = 250 * time.Millisecond
	statusEvery = 5 * time.Second
	feedShare   = 3 // watchdog messages per watchdog interval
)

// Config is the configuration of Run. Status is required.
type Config struct {
	Environment
	Status func() worker.Status
	Log    *slog.Logger // nil: silent

	look time.Duration // 0: lookEvery
}

// Run tells systemd the state of the worker until ctx ends, and then that the worker is stopping. Without a socket it returns nil
// at once. It returns an error if it cannot open the socket; later errors are only logged, because systemd notices missing messages
// itself.
func Run(ctx context.Context, c Config) error {
	if c.Socket == "" {
		return nil
	}
	s, err := open(c.Socket)
	if err != nil {
		return err
	}
	defer s.close()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.look == 0 {
		c.look = lookEvery
	}
	if c.Watchdog > 0 {
		c.look = min(c.look, c.Watchdog/feedShare)
	}
	n := &notifier{Config: c, send: s.send}
	ticker := time.NewTicker(c.look)
	defer ticker.Stop()
	for {
		n.look(time.Now())
		select {
		case <-ctx.Done():
			n.stop()
			return nil
		case <-ticker.C:
		}
	}
}

// notifier remembers what it has sent.
type notifier struct {
	Config
	send func(lines ...string) error

	ready    bool
	stopping bool
	fed      time.Time
	phase    worker.Phase
	said     string
	saidAt   time.Time
	failing  bool
}

// look examines the worker and sends the messages that are due at now: ready, stopping, a changed status, and a sign of life for
// the watchdog unless the worker is stuck.
func (n *notifier) look(now time.Time) {
	s := n.Status()
	var lines []string
	if !n.ready && s.Phase == worker.Live {
		lines = append(lines, "READY=1")
	}
	if !n.stopping && (s.Phase == worker.Draining || s.Phase == worker.Stopped) {
		lines = append(lines, "STOPPING=1")
	}
	dead := health.Alive(s)
	if text := describe(&s, dead); text != n.said && (s.Phase != n.phase || dead != nil || now.Sub(n.saidAt) >= statusEvery) {
		n.said, n.saidAt, n.phase = text, now, s.Phase
		lines = append(lines, "STATUS="+text)
	}
	if n.Watchdog > 0 && dead == nil && now.Sub(n.fed) >= n.Watchdog/feedShare {
		n.fed = now
		lines = append(lines, "WATCHDOG=1")
	}
	n.tell(lines)
}

// tell sends lines in one message, and nothing if there are none. It records which of READY and STOPPING were sent. After an error
// it logs the first in a row, and makes the next look send the content again.
func (n *notifier) tell(lines []string) {
	if len(lines) == 0 {
		return
	}
	if err := n.send(lines...); err != nil {
		if !n.failing {
			n.Log.Warn("systemd does not get the state of this worker", "err", err)
		}
		n.failing, n.said, n.phase, n.fed = true, "", "", time.Time{}
		return
	}
	n.failing = false
	for _, line := range lines {
		n.ready = n.ready || line == "READY=1"
		n.stopping = n.stopping || line == "STOPPING=1"
	}
}

// stop tells systemd that the worker is stopping, if that was not sent yet.
func (n *notifier) stop() {
	if !n.stopping {
		n.tell([]string{"STOPPING=1"})
	}
}

// describe returns the status for systemd as one line of text. dead is the error of health.Alive: unless the worker has stopped, it
// is shown in place of the rest.
func describe(s *worker.Status, dead error) string {
	if dead != nil && s.Phase != worker.Stopped {
		return "stuck: " + strings.Join(strings.Fields(dead.Error()), " ")
	}
	text := string(s.Phase)
	if s.Phase == worker.Live || s.Phase == worker.Draining {
		text = fmt.Sprintf("%s: %d runs, %d of %d slots in use", s.Phase, s.Runs, s.Slots.Slots-s.Slots.Free, s.Slots.Slots)
	}
	if len(s.Unfit) > 0 {
		return text + ", " + s.Unfit[0]
	}
	if s.Phase == worker.Starting && s.Awaits != "" {
		return text + ", " + s.Awaits
	}
	if s.Phase != worker.Live && s.Phase != worker.Draining {
		return text
	}
	if s.RenewErr != nil {
		text += ", the database does not answer"
	}
	return text
}
