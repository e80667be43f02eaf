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

// hostFault classifies an error about the worker's own folders, files, pipes and cgroups. A DAG can cause such an error only by
// the length of a name.
func hostFault(err error, place string) error {
	if errors.Is(err, unix.ENAMETOOLONG) {
		return spawnError{err}
	}
	return hostError{err, place}
}

// dagFault classifies an error about a file that a DAG names. shown is the error for the user.
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

// startError classifies an error of fork or exec. The kernel also returns ENOMEM and EIO for programs that are broken.
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

// blames counts a failed start of a program. It reports whether the program is at fault: it failed to start several times in a
// row here, and another program starts. It calls another only after several failures.
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

// clear forgets the failures of a program that has started.
func (s *suspects) clear(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.count, path)
}
