package exec

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const copyBytes = 32 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// stream copies one pipe of a body into the log.
type stream struct {
	from  *os.File
	to    io.Writer
	done  chan struct{}
	ended bool // nobody has the other end any more
}

// openStream gives the stream, and the end that the body gets.
func openStream(to io.Writer) (*stream, int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, os.NewSyscallError("pipe2", err)
	}
	pollable(ends[0]) // only our end, the other is blocking, as programs expect it
	if to == nil {
		to = io.Discard
	}
	return &stream{from: os.NewFile(uintptr(ends[0]), "pipe"), to: to, done: make(chan struct{})}, ends[1], nil
}

// pollable makes a descriptor that has no other flags one that Go's poller takes.
func pollable(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK) }

// copy reads until nobody can write any more, or until stop is called. What the log does not take is lost, as the body must
// not wait for it.
func (s *stream) copy() {
	defer close(s.done)
	buf := copyBuffers.Get().(*[copyBytes]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer copyBuffers.Put(buf)
	for {
		n, err := s.from.Read(buf[:])
		if n > 0 {
			_, _ = s.to.Write(buf[:n])
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.drain(buf[:])
			return
		case err != nil:
			s.ended = errors.Is(err, io.EOF)
			return
		}
	}
}

// drain takes what is in the pipe now, and no more than a pipe holds: somebody may be writing on and on.
func (s *stream) drain(buf []byte) {
	conn, err := s.from.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		left, _ := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		for left > 0 && !s.ended {
			n, err := unix.Read(int(fd), buf[:min(len(buf), left)])
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return
			}
			_, _ = s.to.Write(buf[:n])
			s.ended, left = n == 0, left-n
		}
	})
}

// stop ends the copying: what is in the pipe is read, and not waited for any longer.
func (s *stream) stop() {
	_ = s.from.SetReadDeadline(time.Unix(1, 0))
	<-s.done
}
