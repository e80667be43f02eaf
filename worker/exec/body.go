package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/offspring"
	"github.com/oarlock-dev/oarlock/worker"
)

// body is a running command.
type body struct {
	task    *worker.Task
	tree    *tree
	pidFD   int             // of the first process; noPidFD: the kernel has no pidfds
	status  unix.WaitStatus // of the first process, once it is reaped
	streams [2]*stream
	ended   chan struct{} // closed once the first process is a zombie
	kept    *kept
	signal  unix.Signal
	grace   time.Duration
	keep    bool
	lives   bool // processes that the body left behind may live on

	captures [2]*capture          // of the streams; nil: no output comes from the stream
	before   map[string]fileState // the files from which outputs come, by their paths, as they were before the body began
	tail     *tail                // of stderr; nil: the step does not refer to it
}

const (
	standardSignal = unix.SIGTERM
	standardGrace  = 10 * time.Second
)

// start starts the command with its niceness, and begins to copy its output. Limits that no cgroup can hold are set as rlimits
// right after the start, so the first process may run without them for a moment.
//
// The caller must call supervise, which also reaps the first process. If start returns an error, nothing of the body is left,
// except processes that survive SIGKILL: the error then names these, too.
func (a *attempt) start() (*body, error) {
	left := a.x.config.Resources
	if a.cgroup != nil {
		left = a.cgroup.limit(left)
	}
	b := &body{task: a.task, ended: make(chan struct{}), kept: &a.x.kept}
	b.endsBy(a.task.Body.Kill)
	b.before = a.filesOfOutputs()
	begun := time.Now()        // before the kernel can give the pid away
	a.x.tracker.enter(a.owner) // before the body can leave a stray
	pid, err := b.spawn(a)
	if err != nil {
		a.x.tracker.drop(a.owner)
		return nil, err
	}
	b.tree = &tree{tracker: a.x.tracker, cgroup: a.cgroup, owner: a.owner, leader: pid}
	a.x.tracker.adopt(b.tree.leader, a.owner, begun)
	go b.watch()
	for _, s := range b.streams {
		go s.copy()
	}
	if err := b.tree.limit(left); err != nil && !errors.Is(err, unix.ESRCH) {
		return nil, spawnError{errors.Join(err, b.end(b.tree.kill()))}
	}
	return b, nil
}

func (b *body) endsBy(kill *dagspec.Kill) {
	b.signal, b.grace = standardSignal, standardGrace
	if kill == nil {
		return
	}
	if sig := unix.SignalNum(kill.Signal); sig != 0 {
		b.signal = sig
	}
	b.grace, b.keep = kill.Grace.Std(), kill.Leftovers == "keep"
}

// spawn opens the two pipes, starts the first process with their write ends as its stdout and stderr, and returns its pid. It sets
// b.pidFD, and b.streams to the read ends, from which nothing reads yet. After an error the pipes are closed. spawn does not use
// package os/exec, which does more than needed: that work takes a tenth of the time in which a small program starts.
func (b *body) spawn(a *attempt) (pid int, err error) {
	var theirs []int
	for i, to := range [2]io.Writer{b.task.Stdout, b.task.Stderr} {
		var end int
		if c := captureOf(streamNames[i], b.task.Body.Outputs); c != nil {
			c.to, to = to, c
			b.captures[i] = c
		}
		if i == 1 && b.task.Body.KeepsTail() {
			b.tail = &tail{to: to}
			to = b.tail
		}
		if b.streams[i], end, err = openStream(to); err != nil {
			err = hostFault(err, "")
			break
		}
		theirs = append(theirs, end)
	}
	if err == nil {
		err = nicely(a.x.config.Resources.Nice, func() (err error) {
			pid, err = offspring.Start(func() (int, error) {
				pid, _, err := syscall.StartProcess(a.cmd.path, a.cmd.args, a.process(theirs, &b.pidFD))
				return pid, err
			})
			if err != nil {
				return a.x.startError(a.cmd, err)
			}
			return nil
		})
	}
	for _, fd := range theirs {
		unix.Close(fd)
	}
	if err != nil {
		b.closeStreams()
		return 0, err
	}
	a.x.suspects.clear(a.cmd.path)
	return pid, nil
}

// process returns the attributes for starting the first process: its folder, environment, process group, cgroup and files. pipes
// are the descriptors that become its stdout and stderr. process sets *pidFD to noPidFD, and the start replaces that by the pidfd
// if the kernel has pidfds.
func (a *attempt) process(pipes []int, pidFD *int) *syscall.ProcAttr {
	*pidFD = noPidFD
	stdin := a.x.null
	if a.stdin != nil {
		stdin = a.stdin
	}
	sys := &syscall.SysProcAttr{Setpgid: true, PidFD: pidFD}
	if a.cgroup != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, a.cgroup.dir
	}
	files := []uintptr{stdin.Fd()}
	for _, fd := range pipes {
		files = append(files, uintptr(fd))
	}
	return &syscall.ProcAttr{Dir: a.cmd.dir, Env: a.env, Files: files, Sys: sys}
}

func (b *body) closeStreams() {
	for _, s := range b.streams {
		if s != nil {
			s.from.Close()
		}
	}
}

// supervise waits until nothing of the body is left, except processes that the step keeps. When ctx ends, the body gets its signal,
// and SIGKILL after its grace. When the task's Now is closed, it gets SIGKILL at once. If the body ended by itself, supervise ends
// its leftovers. It returns nil however the body ended; an error means that processes survived SIGKILL, and names them.
func (b *body) supervise(ctx context.Context) error {
	select {
	case <-b.ended:
		b.tree.bury()
		return b.end(b.leftovers(ctx))
	case <-ctx.Done():
		b.tree.ask(b.signal)
		if b.settles(b.grace, nil) {
			return b.end(nil)
		}
	case <-b.task.Now:
	}
	return b.end(b.tree.kill())
}

// Bounds of the time that leftovers get. The task has ended, but keeps its slot until they are gone.
const (
	leftoverPause = 250 * time.Millisecond // for processes that are about to end, such as the tee of a redirected output
	leftoverGrace = 2 * time.Second        // from the signal to SIGKILL, unless the step's grace is shorter
)

// leftovers ends the processes that a body left behind when it ended by itself. It gives them leftoverPause to end by themselves,
// then the body's signal, and SIGKILL after leftoverGrace; a shorter grace of the step replaces each of these times. It names the
// processes in the task's log before the signal.
//
// If the step keeps leftovers, they live on instead, and leftovers sets b.lives. That does not happen once ctx has ended, or if
// keptLimit trees are kept already. An error means that processes survived SIGKILL.
func (b *body) leftovers(ctx context.Context) error {
	b.tree.keeps = b.keep && ctx.Err() == nil
	if b.tree.empty() {
		return nil
	}
	if b.lives = b.tree.keeps && b.kept.add(b); b.lives {
		return nil
	}
	b.tree.keeps = false
	if b.settles(min(leftoverPause, b.grace), ctx.Done()) {
		return nil
	}
	b.note(b.tree.described())
	b.tree.ask(b.signal)
	if b.settles(min(leftoverGrace, b.grace), nil) {
		return nil
	}
	return b.tree.kill()
}

// note writes to the task's log that processes which the body left behind are ended. left describes them; note shows leftoversNamed
// at most, and writes nothing if left is empty.
func (b *body) note(left []string) {
	if len(left) == 0 || b.task.Note == nil {
		return
	}
	what := "1 process that was"
	if len(left) > 1 {
		what = fmt.Sprintf("%d processes that were", len(left))
	}
	more := ""
	if len(left) > leftoversNamed {
		left, more = left[:leftoversNamed], ", …"
	}
	b.task.Note(fmt.Sprintf("ended %s left behind: %s%s", what, strings.Join(left, ", "), more))
}

const leftoversNamed = 10

// settles waits until no process of the body is alive, for at most grace, and reports whether that came true. It returns false as
// soon as the task's Now is closed, and at once if grace is not positive. When asked is closed, the body gets its signal, and the
// wait goes on; a nil asked never does that.
func (b *body) settles(grace time.Duration, asked <-chan struct{}) bool {
	if grace <= 0 {
		return false
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	ended := b.ended
	look := time.NewTimer(0)
	defer look.Stop()
	for pause := pauseMin; ; {
		select {
		case <-over.C:
			return false
		case <-b.task.Now:
			return false
		case <-asked:
			asked = nil
			b.tree.ask(b.signal)
		case <-ended:
			ended = nil
			b.tree.bury()
			look.Reset(0)
		case <-look.C:
			if ended == nil && b.tree.empty() {
				return true
			}
			look.Reset(pause)
			pause = min(2*pause, pauseMax)
		}
	}
}

// end reads the rest of the pipes, waits for the first process, reaps it, and removes it from the tracker. survivors is the error
// about processes that survived SIGKILL, nil for none; end returns it unchanged. If the first process is a survivor, end does not
// wait: a goroutine reaps it should it ever end. A pipe that kept processes hold stays open, and what they write is discarded.
func (b *body) end(survivors error) error {
	for _, s := range b.streams {
		s.stop()
		if !s.ended && b.keep && b.kept.drain(s) {
			continue
		}
		s.from.Close()
	}
	if survivors != nil && !b.hasEnded() {
		// The kernel does not let go of the first process, so it cannot be waited for here.
		go func() {
			<-b.ended
			b.tree.tracker.drop(b.tree.owner)
			b.wait()
		}()
		return survivors
	}
	<-b.ended
	if survivors != nil {
		b.tree.tracker.drop(b.tree.owner)
	}
	b.tree.reaped = true
	b.tree.forget() // before it is reaped: afterwards another process may get its pid
	b.wait()
	return survivors
}

func (b *body) hasEnded() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}
