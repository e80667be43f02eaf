package exec

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/worker"
)

// hostError means that this host lacks something that a body needs to start. It is not the fault of the DAG, and another host may
// be able to start the body.
type hostError struct {
	error
	place string // what the host lacks; "": the error says that itself
}

func (e hostError) Unwrap() error { return e.error }

// hostFault returns an error about the worker's own folders, files, pipes and cgroups as a hostError. place says what the host
// lacks; "": err says it. A name that is too long is a spawnError, since it is the only such error that a DAG can cause.
func hostFault(err error, place string) error {
	if errors.Is(err, unix.ENAMETOOLONG) {
		return spawnError{err}
	}
	return hostError{err, place}
}

// dagFault returns the error for a file that a DAG names and that cannot be used because of err. It is a hostError if the host has
// no descriptor or no memory left. Otherwise it is a spawnError with shown, which is err with words for the user.
func dagFault(err, shown error) error {
	if worker.Lacks(err) {
		return hostError{err, ""}
	}
	return spawnError{shown}
}

// startHints say what the host lacks, by the error of fork or exec.
var startHints = map[unix.Errno]string{
	unix.ENOSPC: "the kernel has no room for another process",
	unix.EIO:    "the disk does not let the program be read",
}

// startError returns a failure of fork or exec as a hostError or a spawnError, by the side that is at fault: this host, or the
// program. The kernel returns ENOMEM and EIO for both. For these two, startError counts the failure in x.suspects, and it may start
// another program to find out.
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

// suspects counts the failed starts of programs for which either the program or the host may be at fault. Without it, a DAG with
// a broken program could keep every worker from its work.
type suspects struct {
	mu    sync.Mutex
	count map[string]int
}

// blames counts a failed start of a program, and reports whether the program is at fault: more than suspectAfter starts in a row
// have failed, and another program starts. another starts one and returns nil if it could; blames calls it only after so many
// failures. trivialPath is never at fault. Beyond suspectAtMost programs, blames forgets all counts.
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

// clear forgets the failed starts of a program, because it has started now.
func (s *suspects) clear(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.count, path)
}
