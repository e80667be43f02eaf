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
	ended bool // no process holds the other end any more
}

// openStream makes a pipe. It returns a stream that will copy the pipe to a writer, and the descriptor of the write end for the
// body. A nil writer discards the output. The caller must run s.copy, and close the descriptor once the body has it.
func openStream(to io.Writer) (*stream, int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, os.NewSyscallError("pipe2", err)
	}
	pollable(ends[0]) // only our end: programs expect the other one to block
	if to == nil {
		to = io.Discard
	}
	return &stream{from: os.NewFile(uintptr(ends[0]), "pipe"), to: to, done: make(chan struct{})}, ends[1], nil
}

// pollable sets O_NONBLOCK on a descriptor, so that Go's poller can wait for it. It clears other status flags, so the descriptor
// must have none.
func pollable(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK) }

// copy reads until no process can write any more, which sets s.ended, or until stop is called. It closes s.done at its end.
// Output that the log does not take is lost, because the body must not wait for the log.
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

// drain copies the bytes that are in the pipe now, and sets s.ended if no process can write any more. It reads at most the
// capacity of the pipe, since a process may write without end.
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

// stop ends s.copy after the content of the pipe was copied, and waits for its end. copy must have been started. stop does not
// close the pipe.
func (s *stream) stop() {
	_ = s.from.SetReadDeadline(time.Unix(1, 0))
	<-s.done
}
