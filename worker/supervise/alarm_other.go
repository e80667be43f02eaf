//go:build unix && !linux

package supervise

import (
	"time"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

// alarm wakes at an instant of package boottime.
type alarm struct {
	C     chan struct{}
	timer *time.Timer
}

func newAlarm() (*alarm, error) {
	a := &alarm{C: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(time.Hour, a.ring)
	a.timer.Stop()
	return a, nil
}

func (a *alarm) ring() {
	select {
	case a.C <- struct{}{}:
	default:
	}
}

// set sets the instant of package boottime at which the alarm wakes, which is when C gets a value. An instant that has passed wakes
// it at once; 0: it never wakes. set replaces an earlier instant.
func (a *alarm) set(at time.Duration) error {
	a.timer.Stop()
	if at > 0 {
		a.timer.Reset(max(0, at-boottime.Now()))
	}
	return nil
}

func (a *alarm) close() { a.timer.Stop() }
