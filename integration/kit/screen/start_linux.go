package screen

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	still     = 15 * time.Millisecond // a content that stands so long is a frame, not half of one
	maxFrames = 1000                  // of a recording; later frames are left out
	maxRead   = 64 << 10
)

// Recording is a program on a terminal of its own, with the frames that the terminal showed.
type Recording struct {
	Frames []Frame // read them after Wait

	command *exec.Cmd
	master  *os.File
	ended   chan error // the result of watch
}

// Start runs a command with a new terminal as its standard input, output and error, and as its controlling terminal. The
// terminal shows before from the start.
func Start(command *exec.Cmd, columns, rows int, before string) (*Recording, error) {
	screen := New(columns, rows)
	if _, err := screen.Write([]byte(before)); err != nil {
		return nil, err
	}
	master, slave, err := open(columns, rows)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	defer slave.Close()
	command.Stdin, command.Stdout, command.Stderr = slave, slave, slave
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start: %w", err), master.Close())
	}
	r := &Recording{command: command, master: master, ended: make(chan error, 1)}
	go func() { r.ended <- r.watch(screen) }()
	return r, nil
}

// Type sends text as if a person typed it.
func (r *Recording) Type(text string) error {
	_, err := r.master.WriteString(text)
	return err
}

// Wait waits until no process holds the terminal any more, and returns how the program ended.
func (r *Recording) Wait() error {
	read := <-r.ended
	return errors.Join(read, r.master.Close(), r.command.Wait())
}

// watch reads until no process holds the terminal any more. After an error it keeps reading, so that the program does not
// block.
func (r *Recording) watch(screen *Screen) (failed error) {
	text := make([]byte, maxRead)
	since, last := time.Now(), time.Now()
	for {
		n, err := r.master.Read(text)
		now := time.Now()
		if (now.Sub(last) >= still || err != nil) && len(r.Frames) < maxFrames {
			f := screen.Frame()
			f.Stood = now.Sub(since)
			r.Frames = append(r.Frames, f)
			since = now
		}
		last = now
		if _, bad := screen.Write(text[:n]); bad != nil && failed == nil {
			failed = bad
		}
		switch {
		case errors.Is(err, syscall.EIO): // the last process has closed the terminal
			return failed
		case err != nil:
			return errors.Join(failed, err)
		}
	}
}

func open(columns, rows int) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	if slave, err = openSlave(fd, columns, rows); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

func openSlave(master, columns, rows int) (*os.File, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	number, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	size := unix.Winsize{Row: uint16(rows), Col: uint16(columns)}
	if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &size); err != nil {
		return nil, err
	}
	return os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}
