package exec

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/worker"
)

// hostError is that this host could not give a body what it needs to start. No DAG is to blame, and another host may well start it.
type hostError struct {
	error
	place string // what the host lacks; "": the error says it
}

func (e hostError) Unwrap() error { return e.error }

// hostFault judges an error about what is the worker's own: its folders, files, pipes and cgroups. A DAG can spoil nothing of that but the
// length of a name.
func hostFault(err error, place string) error {
	if errors.Is(err, unix.ENAMETOOLONG) {
		return spawnError{err}
	}
	return hostError{err, place}
}

// dagFault judges an error about a file that a DAG names.
func dagFault(err, shown error) error {
	if worker.Lacks(err) {
		return hostError{err, ""}
	}
	return spawnError{shown}
}

// startHints say what a host lacks whose kernel does not start a process.
var startHints = map[unix.Errno]string{
	unix.ENOSPC: "the kernel has no room for another process",
	unix.EIO:    "the disk does not let the program be read",
}

// startError judges an error of fork and exec. The kernel says ENOMEM and EIO of programs that are broken as well.
func (x *Executor) startError(c command, err error) error {
	errno, _ := errors.AsType[unix.Errno](err)
	switch {
	case errno == unix.EAGAIN, errno == unix.ENOSPC:
	case errno == unix.ENOMEM, errno == unix.EIO:
		if x.suspects.blames(c.path, x.startTrivial) {
			return spawnError{startReason(c, err)}
		}
	case !worker.Lacks(err):
		return spawnError{startReason(c, err)}
	}
	return hostError{err, startHints[errno]}
}

const (
	suspectAfter  = 3    // starts in a row that failed
	suspectAtMost = 1000 // programs
)

// suspects are programs that did not start for a reason that may be theirs or the host's. Without them a DAG with a broken program
// could keep every worker from its work.
type suspects struct {
	mu    sync.Mutex
	count map[string]int
}

// blames says whether a program is to blame: it failed several times in a row here, and another one starts.
func (s *suspects) blames(path string, another func() error) bool {
	s.mu.Lock()
	if s.count == nil || len(s.count) >= suspectAtMost {
		s.count = map[string]int{}
	}
	s.count[path]++
	often := s.count[path] > suspectAfter
	s.mu.Unlock()
	return often && path != trivialPath && another() == nil
}

// clear is for a program that started.
func (s *suspects) clear(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.count, path)
}
