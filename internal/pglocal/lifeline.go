package pglocal

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

//go:embed supervise.sh
var superviseScript []byte

// errNobody means that no supervisor reads the lifeline.
var errNobody = errors.New("no supervisor")

// lifeline is the write end of the named pipe. It is a bare descriptor and not an os.File, because the garbage collector
// must not close it.
type lifeline int

// joinLifeline opens the pipe for writing, which makes this process a user of the server. It returns errNobody if there is no
// supervisor that reads the pipe. It does not wait. The caller closes the lifeline to stop being a user.
func joinLifeline(path string) (lifeline, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOENT) {
		return -1, errNobody
	}
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return lifeline(fd), nil
}

// newLifeline opens both ends of the pipe, and makes the pipe if there is none yet. The reader is for the supervisor. The caller
// closes both ends.
func newLifeline(path string) (lifeline, *os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, nil, fmt.Errorf("make %s: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("open %s: %w", path, err)
	}
	reader := os.NewFile(uintptr(fd), path)
	l, err := joinLifeline(path)
	if err != nil {
		return -1, nil, errors.Join(err, reader.Close())
	}
	// O_NONBLOCK was for our own open only: the shell must block in read
	if err := unix.SetNonblock(fd, false); err != nil {
		l.close()
		return -1, nil, errors.Join(err, reader.Close())
	}
	return l, reader, nil
}

// hello tells the supervisor that this process is a user, and does not wait. It returns false if the supervisor is gone. A full
// pipe does not matter.
func (l lifeline) hello() bool {
	_, err := unix.Write(int(l), []byte("\n"))
	return !errors.Is(err, unix.EPIPE)
}

func (l lifeline) close() { _ = unix.Close(int(l)) }

// supervise starts a command, and a supervisor that stops it once it has no user left. The command is that of the server, or of
// initdb. Users are the processes that hold the lifeline open, and the process with the ID host while it lives; 0: there is none.
// This process is a user until the caller closes the returned lifeline. When the command has ended, the supervisor removes the
// folder sockets, unless that is "". It also removes a throw-away f.dir that has no user left.
//
// supervise does not wait until the server is ready or initdb has ended. The output of the command goes to a new server.log.
// Command and supervisor run as f.owner, in a session of their own. An outer shell starts the supervisor in the background and
// ends, so that no process has to wait for the supervisor.
func (f *folder) supervise(host int, sockets string, server []string) (lifeline, error) {
	script := f.path("supervise.sh")
	if err := cmp.Or(writeAtomic(script, superviseScript), f.owner.give(script)); err != nil {
		return -1, explain("write supervisor", f.dir, err)
	}
	log, err := f.newLog()
	if err != nil {
		return -1, explain("open server log", f.dir, err)
	}
	defer log.Close()
	l, reader, err := newLifeline(f.path("lifeline"))
	if err != nil {
		return -1, explain("open lifeline", f.dir, err)
	}
	defer reader.Close()

	keep, trash := "", ""
	if host > 0 {
		keep = fmt.Sprint(host)
	}
	if f.throwaway {
		trash = f.dir
	}
	args := []string{"-c", `"$@" &`, "sh", "/bin/sh", script, f.mark(), keep, trash, sockets, f.data()}
	cmd := exec.Command("/bin/sh", append(args, server...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = f.dir, environment(), f.owner.attr()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{reader}
	if err := cmd.Run(); err != nil {
		l.close()
		return -1, fmt.Errorf("start supervisor: %w", err)
	}
	return l, nil
}
