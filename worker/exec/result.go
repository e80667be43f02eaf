package exec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// spawnError and configError are the two classes of errors of bodies that never started.
type (
	spawnError  struct{ error }
	configError struct{ error }
)

func (e spawnError) Unwrap() error  { return e.error }
func (e configError) Unwrap() error { return e.error }

var errStopped = errors.New("the attempt was stopped before it started")

// refused returns the result of a body that never started because of err. A hostError gives an unstarted attempt, so the worker
// hands the run on. A configError gives kind config, any other error kind spawn.
func refused(err error) dagrun.Result {
	if lacking, ok := errors.AsType[hostError](err); ok {
		return worker.Unstarted(lacking.error, lacking.place)
	}
	if config := (configError{}); errors.As(err, &config) {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	return dagrun.Result{Kind: dagrun.KindSpawn, Reason: err.Error()}
}

// startReason returns the error of a program that was found but did not start, with a hint if the errno has one. It leaves out
// other texts around the errno then.
func startReason(c command, err error) error {
	hint := map[syscall.Errno]string{
		unix.ENOENT:  "the file exists, but the interpreter that its first line or header names does not exist: install the interpreter",
		unix.EACCES:  "the worker's user has no right to run the file: check the permissions of the file and its folders, and noexec of the mount",
		unix.ENOEXEC: "the file is no program for this machine and has no #! line: write run:, or start the interpreter of the file",
		unix.E2BIG:   "arguments and environment are too large together: pass large values through stdin or $OARLOCK_UPSTREAM",
		unix.ENOMEM:  "other programs start, but this program is too large or broken",
		unix.EIO:     "other programs start, but the file of this program cannot be read",
		unix.ETXTBSY: "another process is still writing the file",
	}
	errno := syscall.Errno(0)
	if errors.As(err, &errno) && hint[errno] != "" {
		return fmt.Errorf("start %s: %w: %s", c.path, errno, hint[errno])
	}
	return fmt.Errorf("start %s: %w", c.path, err)
}

// result returns how a body ended. It reads the outputs if the body succeeded: wrong outputs make it fail as kind output. survivors
// is the error that names processes that survived SIGKILL, nil for none; it becomes the reason. If the first process is one of
// them, its status is not known, and counts as killed.
func (a *attempt) result(b *body, survivors error) dagrun.Result {
	if survivors != nil && !b.tree.reaped { // end's goroutine may be writing the status
		return dagrun.Result{Kind: dagrun.KindSignal, Signal: int(unix.SIGKILL), ExitCode: 128 + int(unix.SIGKILL), HasExit: true, Reason: survivors.Error()}
	}
	r := exit(b.status)
	switch {
	case b.status.Signal() == unix.SIGKILL && a.cgroup != nil:
		if why := a.cgroup.outOfMemory(a.x.config.Resources.Memory); why != "" {
			r.Reason += ": " + why
		}
	case r.Kind == dagrun.KindNone && !slices.Contains(a.task.Body.SkipExitCode, 0): // a body that skips its task has no outputs
		r = a.outputs(r, b)
	}
	if survivors != nil {
		r.Reason = survivors.Error()
	}
	if r.Kind != dagrun.KindNone {
		r.Stderr = a.stderrTail(b)
	}
	return r
}

// exit returns the result for the wait status of the first process: killed by a signal, a code other than 0, or success. It has no
// outputs.
func exit(status unix.WaitStatus) dagrun.Result {
	switch {
	case status.Signaled():
		sig := status.Signal()
		return dagrun.Result{
			Kind: dagrun.KindSignal, Signal: int(sig), ExitCode: 128 + int(sig), HasExit: true,
			Reason: "killed by " + signalName(sig),
		}
	case status.ExitStatus() != 0:
		return dagrun.Result{
			Kind: dagrun.KindExit, ExitCode: status.ExitStatus(), HasExit: true, Reason: "exit " + strconv.Itoa(status.ExitStatus()),
		}
	}
	return dagrun.Result{HasExit: true}
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(sig))
}

func (a *attempt) outputs(r dagrun.Result, b *body) dagrun.Result {
	outputs, err := readOutputs(a.folder.output, a.task.Body.Outputs, func(o dagspec.Output) (string, bool, error) { return a.source(b, o) })
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindOutput, HasExit: true, Reason: err.Error()}
	}
	r.Outputs = outputs
	return r
}
