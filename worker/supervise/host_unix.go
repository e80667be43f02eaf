//go:build unix && !linux

package supervise

import (
	"errors"
	"os"
	"syscall"
)

// Without a list of processes the guard cannot verify anything, so no worker id is replaced.
const (
	containment = "group"
	verifies    = false
	waitAll     = 0
)

var thisProgram, _ = os.Executable()

var errGone = errors.New("the process is gone")

func adoptOrphans() error { return nil }

func nameProcess(string) {}

func thisHost() host { return host{} }

func listProcesses() ([]process, error) { return nil, nil }

func readProcess(int) (process, error) { return process{}, errGone }

func readEnviron(int) ([]byte, error) { return nil, errGone }

func (p identity) signal(syscall.Signal) error { return errGone }

func (p identity) alive() bool { return false }

func identify(pid int) identity { return identity{PID: pid} }

func pipe2(ends []int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(ends); err != nil {
		return err
	}
	for _, fd := range ends {
		syscall.CloseOnExec(fd)
		if err := syscall.SetNonblock(fd, true); err != nil {
			return err
		}
	}
	return nil
}
