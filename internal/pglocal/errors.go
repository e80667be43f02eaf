package pglocal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"
)

// The kinds of errors of a folder or a server; compare with errors.Is.
var (
	ErrNotOurs      = errors.New("folder is not ours")
	ErrOtherVersion = errors.New("data folder of another major version")
	ErrDiskFull     = errors.New("disk full")
	ErrLocale       = errors.New("locale missing")
	ErrBusy         = errors.New("folder in use")
	ErrUnreachable  = errors.New("folder out of the server's reach")
	ErrBinaries     = errors.New("no PostgreSQL where " + binEnv + " points")
	ErrFailed       = errors.New("PostgreSQL failed")

	errPortTaken = errors.New("port taken")
	errShmInUse  = errors.New("a backend of a killed server is still leaving")
)

// Error is a failure and what to do next.
type Error struct {
	Kind  error // one of the Err values above
	Msg   string
	ToDo  string
	Cause error // may be nil
}

func (e *Error) Error() string { return e.Msg }

// Hint returns what to do next.
func (e *Error) Hint() string { return e.ToDo }

func (e *Error) Unwrap() []error { return []error{e.Kind, e.Cause} }

// MissingError reports that no usable PostgreSQL is installed.
type MissingError struct {
	Command string // installs it on this machine
	Why     string // what was found instead, or why a download failed; may be empty
}

func (e *MissingError) Error() string {
	msg := fmt.Sprintf("PostgreSQL %d or newer was not found", minMajor)
	if e.Why != "" {
		msg += " (" + e.Why + ")"
	}
	return msg + "; install it: " + e.Command
}

// Hint returns what to do next.
func (e *MissingError) Hint() string {
	return "run: " + e.Command + "  (or set OARLOCK_PG_BIN to the folder of initdb and postgres)"
}

// symptoms maps messages of initdb and postgres (LC_ALL=C) to kinds of errors.
var symptoms = []struct {
	text string
	kind error
}{
	{"No space left on device", ErrDiskFull},
	{"Disk quota exceeded", ErrDiskFull},
	{"could not create any TCP/IP sockets", errPortTaken},
	{"Address already in use", errPortTaken},
	{"pre-existing shared memory block", errShmInUse},
	{`lock file "postmaster.pid" already exists`, ErrBusy},
	{"database files are incompatible with server", ErrOtherVersion},
	{"invalid locale name", ErrLocale},
	{"invalid locale settings", ErrLocale},
	{"locale is incompatible with operating system", ErrLocale},
	{`invalid value for parameter "lc_`, ErrLocale},
}

var advice = map[error]string{
	ErrDiskFull:     "free some space on the disk, and type the command again; nothing was deleted",
	ErrBusy:         "stop the other server, or set XDG_STATE_HOME to another folder",
	ErrOtherVersion: "install the PostgreSQL version that made the data folder, or move the folder away to begin with an empty database",
	ErrLocale:       "install the locale that the data folder was made with (see lc_* in data/postgresql.conf)",
	ErrFailed:       "the log of the server says more; nothing was deleted",
}

// diagnose returns an *Error for a failed initdb or postgres. The output of the program gives its kind (see symptoms, else
// ErrFailed), its message and the advice. what names the step that failed. log is the path of the file with the full output; ""
// names none.
func diagnose(what, output, log string, cause error) error {
	kind, mark := ErrFailed, ""
	for _, s := range symptoms {
		if strings.Contains(output, s.text) {
			kind, mark = s.kind, s.text
			break
		}
	}
	msg := fmt.Sprintf("%s: %s", what, telling(output, mark, cause))
	if log != "" {
		msg += " (log: " + log + ")"
	}
	return &Error{Kind: kind, Msg: msg, ToDo: advice[kind], Cause: cause}
}

// telling returns the line of the output that gives the reason: the first line with mark, or else the first of the most severe
// ones. Without any such line it returns the last line, and without output the text of cause. mark may be "".
func telling(output, mark string, cause error) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for _, mark := range []string{cmp.Or(mark, "PANIC:"), "PANIC:", "FATAL:", "error:", "ERROR:"} {
		for _, line := range lines {
			if strings.Contains(line, mark) {
				return strings.TrimSpace(severity.ReplaceAllString(line, ""))
			}
		}
	}
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return fmt.Sprint(cause)
}

// severity matches the prefix of a message: time and process, program, FATAL.
var severity = regexp.MustCompile(`^.*?\b(PANIC|FATAL|ERROR|LOG|HINT|error): +`)

// explain returns an error for a file operation of our own that failed in the folder dir; nil if err is nil. It is an *Error with
// advice if the disk is full or permission is missing. Any other error is wrapped with op, the name of the operation.
func explain(op, dir string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &Error{ErrDiskFull, fmt.Sprintf("%s: no space left for %s", op, dir), advice[ErrDiskFull], err}
	case errors.Is(err, fs.ErrPermission):
		return &Error{
			ErrNotOurs, fmt.Sprintf("%s: no permission for %s", op, dir),
			"set XDG_STATE_HOME to a folder of your own, or type the command as the user that owns this folder", err,
		}
	}
	return fmt.Errorf("%s: %w", op, err)
}
