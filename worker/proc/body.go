package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// body is a command under way.
type body struct {
	task    *worker.Task
	cmd     *exec.Cmd
	tree    *tree
	streams [2]*stream
	ended   chan struct{} // closed when the first process is a zombie
	kept    *kept
	signal  unix.Signal
	grace   time.Duration
	keep    bool
	lives   bool // what it left behind was kept
}

const (
	standardSignal = unix.SIGTERM
	standardGrace  = 10 * time.Second
)

// start starts the command. Limits that no cgroup can hold are set the moment after.
func (a *attempt) start() (*body, error) {
	left := a.x.config.Resources
	if a.cgroup != nil {
		left = a.cgroup.limit(left)
	}
	b := &body{task: a.task, ended: make(chan struct{}), kept: &a.x.kept}
	b.endsBy(a.task.Body.Kill)
	b.cmd = a.process()
	begun := time.Now() // before its pid is given away
	if err := b.spawn(); err != nil {
		return nil, spawnError{startReason(a.cmd, err)}
	}
	b.tree = &tree{census: a.x.census, cgroup: a.cgroup, owner: a.owner, leader: b.cmd.Process.Pid}
	a.x.census.adopt(b.tree.leader, a.owner, begun)
	go b.watch()
	for _, s := range b.streams {
		go s.copy()
	}
	if err := b.tree.limit(left); err != nil && !errors.Is(err, unix.ESRCH) {
		return nil, spawnError{errors.Join(err, b.end(b.tree.kill()))}
	}
	return b, nil
}

// process says how to start it.
func (a *attempt) process() *exec.Cmd {
	cmd := &exec.Cmd{
		Path: a.cmd.path, Args: a.cmd.args, Dir: a.cmd.dir, Env: a.env,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, PidFD: new(int)},
	}
	*cmd.SysProcAttr.PidFD = noPidFD
	cmd.Stdin = a.x.null
	if a.stdin != nil {
		cmd.Stdin = a.stdin
	}
	if a.cgroup != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(a.cgroup.dir.Fd())
	}
	return cmd
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

// spawn opens the two pipes and starts the process with their other ends.
func (b *body) spawn() error {
	var theirs [2]*os.File
	for i, to := range [2]io.Writer{b.task.Stdout, b.task.Stderr} {
		var err error
		if b.streams[i], theirs[i], err = openStream(to); err != nil {
			b.closePipes(theirs)
			return err
		}
	}
	b.cmd.Stdout, b.cmd.Stderr = theirs[0], theirs[1]
	err := b.cmd.Start()
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		b.closePipes([2]*os.File{})
	}
	return err
}

func (b *body) closePipes(theirs [2]*os.File) {
	for i, s := range b.streams {
		if s != nil {
			s.from.Close()
		}
		if theirs[i] != nil {
			theirs[i].Close()
		}
	}
}

// supervise waits until nothing of the body is left, and sees to it. The error names what SIGKILL did not end.
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

// leftovers gives what a body that ended by itself left behind time to end too.
func (b *body) leftovers(ctx context.Context) error {
	if b.tree.empty() {
		return nil
	}
	if b.lives = b.keep && ctx.Err() == nil && b.kept.add(b); b.lives {
		return nil
	}
	if b.settles(b.grace, ctx.Done()) {
		return nil
	}
	return b.tree.kill()
}

// settles waits for the tree to end by itself, at most for the grace. If asked is closed meanwhile, the tree gets the
// signal that asks it to.
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

// end reads what is left in the pipes and reaps the first process.
func (b *body) end(survivors error) error {
	for _, s := range b.streams {
		s.stop()
		if !s.ended && b.keep && b.kept.drain(s) {
			continue
		}
		s.from.Close()
	}
	if survivors != nil && !b.hasEnded() {
		go func() { // it cannot be waited for: the kernel does not let go of it
			<-b.ended
			_ = b.cmd.Wait()
		}()
		return survivors
	}
	<-b.ended
	b.tree.reaped = true
	_ = b.cmd.Wait() // the state it leaves says it all
	b.tree.forget()
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
