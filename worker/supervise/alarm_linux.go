package supervise

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes at an instant of the clock that counts sleep. Timers of the Go runtime would be late by every suspension.
type alarm struct {
	C    chan struct{}
	fd   int
	file *os.File
	done chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	a := &alarm{C: make(chan struct{}, 1), fd: fd, file: os.NewFile(uintptr(fd), "alarm"), done: make(chan struct{})}
	go a.ring()
	return a, nil
}

func (a *alarm) ring() {
	defer close(a.done)
	var times [8]byte
	for {
		if _, err := a.file.Read(times[:]); err != nil {
			return
		}
		select {
		case a.C <- struct{}{}:
		default:
		}
	}
}

// set sets the instant of package boottime at which the alarm wakes, which is when C gets a value. An instant that has passed wakes
// it at once; 0: it never wakes. set replaces an earlier instant.
func (a *alarm) set(at time.Duration) error {
	next := unix.ItimerSpec{}
	if at > 0 {
		next.Value = unix.NsecToTimespec(int64(at))
	}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &next, nil); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	return nil
}

func (a *alarm) close() {
	a.file.Close()
	<-a.done
}
