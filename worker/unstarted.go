package worker

import (
	"errors"
	"syscall"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Lacks says whether an error means that this host has no descriptor or no memory left. Every body needs both, so no DAG is to
// blame.
func Lacks(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// lackHints say what to do where something is used up.
var lackHints = map[syscall.Errno]string{
	syscall.EMFILE:  "the worker has no file descriptor left: lower slots, or raise the limit (ulimit -n)",
	syscall.ENFILE:  "the whole host has no file descriptor left: raise fs.file-max",
	syscall.ENOMEM:  "the host has no memory left: lower slots",
	syscall.ENOBUFS: "the host has no memory left: lower slots",
	syscall.EAGAIN:  "the worker's user or its cgroup has too many processes: lower slots, or raise the limit (ulimit -u, pids.max)",
}

// Unstarted is how an attempt ends that this host could not start. Nothing of its body may have happened. The worker hands the run
// on, claims nothing more, and tries its host again before it does. The place says what the host lacks; "": the error says it.
func Unstarted(err error, place string) dagrun.Result {
	why := err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		why = errno.Error()
		if place == "" {
			place = lackHints[errno]
		}
	}
	if place != "" {
		why += " (" + place + ")"
	}
	return dagrun.Result{Kind: dagrun.KindLost, Unstarted: true, Reason: why}
}
