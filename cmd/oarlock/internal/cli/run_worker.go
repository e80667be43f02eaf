package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
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
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	maxSeats      = 256
	goodbye       = 20 * time.Second // for a worker without a run to end
	maxWorkerLine = 64 << 10
)

// ownWorker is a worker process of this command: a guard, and below it the driver process. It ends with this process,
// however this process ends, because its standard input is closed then.
type ownWorker struct {
	name    string
	args    []string // arguments of `oarlock worker`, besides the name
	prefix  string   // printed before each line of its log
	command *exec.Cmd
	stdin   io.Closer
	leave   func() // frees its name
	ended   chan struct{}
	failed  error // why it ended; valid once ended is closed
}

// startWorker starts a worker process for the same database, under the first free name of its kind: run-1, run-2 … It calls prefix
// once with that name, for the text before each line of the worker's log. The caller must stop the worker.
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

// start starts the process, or starts it again after it has ended, and returns at once. It passes the database's URL, which may
// hold a password, in the environment.
func (w *ownWorker) start(e *env) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	command := exec.Command(program)
	command.Args = append([]string{os.Args[0], "worker", "--until-eof", "--name", w.name}, w.args...)
	command.Dir = e.Dir
	command.Env = append(os.Environ(), e.workerEnvironment()...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this command only
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
		_, _ = io.Copy(io.Discard, stderr) // skips the rest behind a line that is too long
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

// workerEnvironment returns the variables that give a worker process the database, the settings file and the log level of this
// command.
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

// watch calls lost with the reason, in a goroutine, if the worker ends before stop is called. stop waits for that call.
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

// drain asks the worker to stop, and does not wait. Running tasks may finish for the worker's drain timeout, unless this
// process ends before.
func (w *ownWorker) drain() error {
	if err := w.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop worker %s: %w", w.name, err)
	}
	return nil
}

// stop ends the worker and every process below it, and waits for their end. It closes the worker's standard input first, and
// sends signals only to a worker that does not end within goodbye. Afterwards another command may use the worker's name.
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
	for range 3 { // at the third signal a guard kills every process below it
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

// takeSeat returns a name that no other command's worker uses at the moment, and keeps it taken until leave is called. It reuses
// names, so that a new worker finds what a killed worker of the same name left behind, and removes it.
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
		kind: conflict, err: fmt.Errorf("%d workers named %s-N are at work on this host already", maxSeats, kind),
		hint: "wait until one of these workers ends, or let another worker take the run: `oarlock enqueue DAG`",
	}
}

// note prints a line that is not data to standard error, behind prefix. While a page is drawn on the terminal, the line appears
// above the page.
func (e *env) note(prefix, line string) {
	line = prefix + strings.TrimRight(runview.Printable(line), " ")
	if e.lines != nil {
		e.lines.above(line)
		return
	}
	fmt.Fprintln(e.Stderr, line)
}

const (
	lastLogs  = 5 * time.Second // how long the last lines of a finished run are awaited
	maxAbove  = 10_000          // lines that wait to be printed; further lines are dropped here, and stay in the logs
	maxLatest = 300             // bytes of the line beside a task
)

// liveLines collects lines while a page is drawn on the terminal: lines to be printed above the page, and the last line of
// each task. Its methods do little on nil.
type liveLines struct {
	came   chan struct{}
	finish func() // waits for the last lines

	mu     sync.Mutex
	upper  []string
	latest map[string]string
}

func newLiveLines() *liveLines {
	return &liveLines{came: make(chan struct{}, 1), latest: map[string]string{}}
}

// news returns a channel that receives when there is something to draw. It returns nil for a nil l.
func (l *liveLines) news() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.came
}

func (l *liveLines) tell() {
	select {
	case l.came <- struct{}{}:
	default:
	}
}

func (l *liveLines) above(line string) {
	l.mu.Lock()
	if len(l.upper) < maxAbove {
		l.upper = append(l.upper, line)
	}
	l.mu.Unlock()
	l.tell()
}

// take removes the lines for above the page that came since the last call, and returns them. It returns "" if there are none, or if
// l is nil.
func (l *liveLines) take() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.upper
	l.upper = nil
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// of returns the last line that a task wrote. It returns "" if there is none, or if l is nil.
func (l *liveLines) of(task string) string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest[task]
}

func (l *liveLines) settle() {
	if l != nil && l.finish != nil {
		l.finish()
	}
}

// add stores the last line of the chunk c, finished or not, as the last line of its task, and tells the watcher to draw. It ignores
// a chunk without text, and notes of Oarlock itself.
func (l *liveLines) add(c *queue.Chunk) {
	if c.Stream == queue.StreamOarlock {
		return
	}
	text := bytes.TrimRight(c.Data, "\r\n\t ")
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	text = text[bytes.LastIndexByte(text, '\r')+1:]
	if len(text) == 0 {
		return
	}
	line := runview.Printable(string(text[:min(len(text), maxLatest)]))
	l.mu.Lock()
	l.latest[runview.TaskName(c.Step, c.Task.Item)] = line
	l.mu.Unlock()
	l.tell()
}

// Write keeps lines until the watcher prints them above the page. It drops lines beyond maxAbove. It never fails.
func (l *liveLines) Write(p []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimSuffix(string(p), "\n"), "\n") {
		l.above(line)
	}
	return len(p), nil
}

// awaitLive follows a run to its end and shows it like awaitRun, with the output of tasks. On a terminal it shows the last line of
// each task beside the task. If all is set, it also prints every line that tasks write. If neither is the case, it is awaitRun.
func (e *env) awaitLive(ctx context.Context, store *queue.Store, id queue.RunID, all bool, how progress) error {
	shown := *e
	live := how == progressLive
	if !live && !all {
		return e.awaitRun(ctx, store, id, waiting{progress: how})
	}
	shown.Stdout = &sharedOutput{to: e.Stdout}
	logs := shown
	shown.lines = newLiveLines()
	switch {
	case live:
		e.lines, logs.Stdout = shown.lines, shown.lines
	case e.settings.Text("output") != "table":
		logs.Stdout, logs.StdoutTTY = e.Stderr, e.StderrTTY
	}
	following, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { logs.followLines(following, store, id, shown.lines, all) })
	shown.lines.finish = func() {
		defer time.AfterFunc(lastLogs, stop).Stop()
		beside.Wait()
	}
	defer beside.Wait()
	defer stop()
	return shown.awaitRun(ctx, store, id, waiting{progress: how})
}

// followLines passes on the output of tasks to live, and prints it if all is set, until the run is over. It reports no error, since
// the user can still look up the logs.
func (e *env) followLines(ctx context.Context, store *queue.Store, id queue.RunID, live *liveLines, all bool) {
	o := &logsOptions{query: queue.LogQuery{Run: id}, follow: true, tail: -1}
	reader := store.OpenLogs(o.query)
	sink := newLineSink(e, o, reader)
	for c, err := range reader.Follow(ctx, nil) {
		if err != nil {
			return
		}
		live.add(&c)
		if !all {
			continue
		}
		if err := sink.add(&c); err != nil {
			return
		}
	}
	_ = sink.end()
}

// sharedOutput lets several goroutines write to one output, one piece at a time.
type sharedOutput struct {
	mu sync.Mutex
	to interface{ Write(p []byte) (int, error) }
}

func (s *sharedOutput) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}
