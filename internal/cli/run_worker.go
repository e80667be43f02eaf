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
)

const (
	maxSeats      = 256
	goodbye       = 20 * time.Second // for a worker without a run to end
	maxWorkerLine = 64 << 10
)

// ownWorker is a worker process of this command's own: a guard, and below it the process that works. It ends with this
// process, however that ends, because its standard input does.
type ownWorker struct {
	command *exec.Cmd
	stdin   io.Closer
	leave   func() // its name is free again
	ended   chan struct{}
	failed  error // valid when ended
	said    sync.WaitGroup
}

// startWorker starts one for the same database. What is secret about that goes through the environment.
func (e *env) startWorker(args []string) (*ownWorker, error) {
	name, leave, err := e.takeSeat()
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		leave()
		return nil, fmt.Errorf("find this program: %w", err)
	}
	w := &ownWorker{leave: leave, ended: make(chan struct{})}
	w.command = exec.Command(program)
	w.command.Args = append([]string{os.Args[0], "worker", "--until-eof", "--name", name}, args...)
	w.command.Dir = e.Dir
	w.command.Env = append(os.Environ(), e.workerEnvironment()...)
	w.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this command
	if err := w.start(e); err != nil {
		leave()
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	return w, nil
}

func (w *ownWorker) start(e *env) (err error) {
	if w.stdin, err = w.command.StdinPipe(); err != nil {
		return err
	}
	stderr, err := w.command.StderrPipe()
	if err != nil {
		return err
	}
	if err := w.command.Start(); err != nil {
		return err
	}
	w.said.Go(func() {
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, maxWorkerLine)
		for lines.Scan() {
			e.note("worker: " + lines.Text())
		}
		_, _ = io.Copy(io.Discard, stderr) // past a line that is too long
	})
	go func() {
		defer close(w.ended)
		w.said.Wait()
		w.failed = w.command.Wait()
	}()
	return nil
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

// drain lets what runs finish for as long as the worker was told, unless this process ends before.
func (w *ownWorker) drain() error {
	defer w.leave()
	if err := w.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the worker: %w", err)
	}
	<-w.ended
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
func (e *env) takeSeat() (name string, leave func(), err error) {
	state, err := e.stateDir()
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the state folder: %w", err)
	}
	for n := 1; n <= maxSeats; n++ {
		name := fmt.Sprintf("run-%d", n)
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
		kind: conflict, err: fmt.Errorf("%d runs go on here already", maxSeats),
		hint: "wait for one to end, or have a worker do it: `oarlock enqueue DAG`",
	}
}

// note is a line that is no data, from beside: whoever draws on the terminal shows it in time.
func (e *env) note(line string) {
	line = strings.TrimRight(printable(line), " ")
	if e.lines != nil {
		e.lines.above(line)
		return
	}
	fmt.Fprintln(e.Stderr, line)
}
