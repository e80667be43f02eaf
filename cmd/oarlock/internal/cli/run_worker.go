package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/runview"
)

const (
	maxSeats      = 256
	goodbye       = 20 * time.Second // for a worker without a run to end
	maxWorkerLine = 64 << 10
)

// ownWorker is a worker process of this command's own: a guard, and below it the process that works. It ends with this
// process, however that ends, because its standard input does.
type ownWorker struct {
	name    string
	args    []string // of `oarlock worker`, besides its name
	prefix  string   // of its lines
	command *exec.Cmd
	stdin   io.Closer
	leave   func() // its name is free again
	ended   chan struct{}
	failed  error // valid when ended
}

// startWorker starts one for the same database, under the first free name of a kind: run-1, run-2 … Prefix is asked once.
func (e *env) startWorker(kind string, prefix func(name string) string, args []string) (*ownWorker, error) {
	name, leave, err := e.takeSeat(kind)
	if err != nil {
		return nil, err
	}
	w := &ownWorker{name: name, args: args, prefix: prefix(name), leave: leave}
	if err := w.start(e); err != nil {
		leave()
		return nil, err
	}
	return w, nil
}

// start starts the process, again if it has ended. What is secret about the database goes through the environment.
func (w *ownWorker) start(e *env) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	command := exec.Command(program)
	command.Args = append([]string{os.Args[0], "worker", "--until-eof", "--name", w.name}, w.args...)
	command.Dir = e.Dir
	command.Env = append(os.Environ(), e.workerEnvironment()...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this command
	stdin, err := command.StdinPipe()
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	stderr, err := command.StderrPipe()
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	w.command, w.stdin, w.ended = command, stdin, make(chan struct{})
	go func() {
		defer close(w.ended)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, maxWorkerLine)
		for lines.Scan() {
			e.note(w.prefix, lines.Text())
		}
		_, _ = io.Copy(io.Discard, stderr) // past a line that is too long
		w.failed = command.Wait()
	}()
	return nil
}

func (w *ownWorker) pid() int { return w.command.Process.Pid }

func (w *ownWorker) hasEnded() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// workerEnvironment is the settings of this command as a worker of the same program reads them.
func (e *env) workerEnvironment() []string {
	url := e.settings.Text("database_url")
	if e.isPrivate() {
		url = privateWord
	}
	vars := []string{"OARLOCK_DATABASE_URL=" + url, "OARLOCK_LOCAL_FILES=true", "OARLOCK_LOG_FORMAT=text", "OARLOCK_OUTPUT=table", "NO_COLOR=1"}
	if level := e.settings.Value("log_level"); level.Origin.Where == "" {
		vars = append(vars, "OARLOCK_LOG_LEVEL=warn")
	} else {
		vars = append(vars, "OARLOCK_LOG_LEVEL="+level.Text)
	}
	if e.settings.Path != "" {
		vars = append(vars, "OARLOCK_CONFIG="+e.settings.Path)
	}
	return vars
}

// watch calls lost when the worker ends before it is to. What it returns ends that.
func (w *ownWorker) watch(lost func(error)) (stop func()) {
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-w.ended:
			lost(fmt.Errorf("the worker ended before its run: %w", cmp.Or(w.failed, io.EOF)))
		case <-over:
		}
	})
	return func() {
		close(over)
		watching.Wait()
	}
}

// drain lets what runs finish for as long as the worker was told, unless this process ends before. It does not wait for that.
func (w *ownWorker) drain() error {
	if err := w.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop worker %s: %w", w.name, err)
	}
	return nil
}

// stop ends the worker and everything below it.
func (w *ownWorker) stop() error {
	defer w.leave()
	err := w.stdin.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	timer := time.NewTimer(goodbye)
	defer timer.Stop()
	select {
	case <-w.ended:
		return err
	case <-timer.C:
	}
	for range 3 { // asked for the third time, a guard kills what is below it
		_ = w.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-w.ended:
			return err
		case <-time.After(time.Second):
		}
	}
	<-w.ended
	return err
}

// takeSeat finds a name that no other command's worker has now. Names are used again, so that what a killed worker left
// behind is found under them, and swept.
func (e *env) takeSeat(kind string) (name string, leave func(), err error) {
	state, err := e.stateDir()
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the state folder: %w", err)
	}
	for n := 1; n <= maxSeats; n++ {
		name := fmt.Sprintf("%s-%d", kind, n)
		seat, err := os.OpenFile(filepath.Join(state, name+".seat"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return "", nil, fmt.Errorf("find a name for the worker: %w", err)
		}
		if unix.Flock(int(seat.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			return name, func() { seat.Close() }, nil
		}
		seat.Close()
	}
	return "", nil, &failure{
		kind: conflict, err: fmt.Errorf("%d workers named %s-N are at work here already", maxSeats, kind),
		hint: "wait for one to end, or have a worker do it: `oarlock enqueue DAG`",
	}
}

// note is a line that is no data, from beside: whoever draws on the terminal shows it in time.
func (e *env) note(prefix, line string) {
	line = prefix + strings.TrimRight(runview.Printable(line), " ")
	if e.lines != nil {
		e.lines.above(line)
		return
	}
	fmt.Fprintln(e.Stderr, line)
}
