//go:build unix

package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

// driver is one driver process, from its start until it is reaped. signal, reaped and kill do nothing on a nil driver.
type driver struct {
	identity
	since    time.Duration // since boot, when it started
	readable chan struct{} // gets a value when the pipe has input; nil once the process has closed its end
	in, out  *os.File
	pipe     syscall.RawConn // of in
	buffer   []byte          // for one read
	partial  []byte          // start of a request that has not come completely yet
	hush     chan struct{}   // closed when the guard stops listening
	reading  sync.WaitGroup
	ended    bool
	code     int
}

const lineShown = 200 // bytes of a malformed line that an error shows

var (
	errNotAttached = errors.New("the driver process did not attach in time")
	errDeadline    = errors.New("its lease ends without a sign of life from the database, or it was frozen")
)

// drive runs one driver process, from its start until nothing of it is left. It returns the exit code; -1: the process could not be
// started. If the guard had to kill the process, drive sets g.over to the reason. The error is nil, or errLeft if processes survive
// and the guard was asked to stop.
func (g *supervisor) drive() (int, error) {
	g.why, g.driver, g.over = nil, nil, nil
	g.makeCgroup()
	defer g.dropCgroup()
	if err := g.start(); err != nil {
		g.driver = &driver{since: boottime.Now(), ended: true, code: -1}
		g.Say(Event{Kind: Ended, Code: -1, Err: err, Last: g.isLast(-1)})
		return -1, nil
	}
	defer g.driver.hangUp()
	overdue := g.overdue()
	for ; !g.driver.ended && overdue == nil; overdue = g.overdue() {
		g.turn(forever)
	}
	dying := boottime.Now()
	if overdue != nil && !g.driver.ended {
		g.over = overdue
		g.Say(Event{Kind: Overdue, PID: g.driver.PID, Err: overdue})
	}
	g.driver.hangUp() // requests that come from now on are ignored
	g.expect(0, nil)
	if !g.clear(g.descendants) {
		return g.driver.code, errLeft
	}
	g.Say(Event{Kind: Ended, PID: g.driver.PID, Code: g.driver.code, Took: boottime.Now() - dying, Last: g.isLast(g.driver.code)})
	return g.driver.code, nil
}

// start starts a driver process as g.driver, moves it to the cgroup, writes it into the lock file, and sets the deadline for its
// Attach. After an error no process was started.
//
// The driver process gets a session of its own. A signal that the terminal sends to the guard's group then reaches it once, through
// the guard. And the death of the guard does not send SIGHUP to a stopped driver process, as to an orphaned group.
func (g *supervisor) start() error {
	pipes, err := openPipes()
	if err != nil {
		return fmt.Errorf("start the driver process: %w", err)
	}
	defer pipes.closeTheirs()
	path, args := thisProgram, g.Args
	if len(g.Command) > 0 {
		path, args = g.Command[0], g.Command
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env:   append(unmarked(g.Env), pipes.marker(g.lockFile.file().Inode)),
		Files: []uintptr{uintptr(pipes.null), 1, 2, uintptr(pipes.theirIn), uintptr(pipes.theirOut), uintptr(g.lockFile.fd)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		pipes.closeOurs()
		return fmt.Errorf("start the driver process %s: %w", path, err)
	}
	g.driver = newDriver(pid, pipes)
	g.expect(boottime.Now()+g.Limits.Attach, errNotAttached)
	g.contain(pid)
	next := g.lockFile.list
	next.Driver = g.driver.identity
	g.write(next)
	g.Say(Event{Kind: Started, PID: pid, Workers: g.replaces()})
	return nil
}

// contain moves the driver process to g.cgroup, if there is one. The driver process waits in Attach meanwhile, and has started
// nothing. If the move fails, contain tells Uncontained and drops the cgroup.
func (g *supervisor) contain(pid int) {
	if g.cgroup == "" {
		return
	}
	if err := g.cgroup.join(pid); err != nil {
		g.Say(Event{Kind: Uncontained, Err: err})
		g.dropCgroup()
	}
}

func newDriver(pid int, p *pipes) *driver {
	d := &driver{
		identity: identify(pid), since: boottime.Now(),
		readable: make(chan struct{}), hush: make(chan struct{}), buffer: make([]byte, lineBytes),
		in: os.NewFile(uintptr(p.ourIn), "from driver process"), out: os.NewFile(uintptr(p.ourOut), "to driver process"),
	}
	d.pipe, _ = d.in.SyscallConn() // fails only on nil
	d.reading.Add(1)
	go d.listen(d.readable)
	return d
}

// listen sends on readable whenever the pipe has input, until either side closes the pipe. Only the guard reads from the pipe: if
// this goroutine read, the guard might decide to kill while a request was read but not handed on.
func (d *driver) listen(readable chan<- struct{}) {
	defer d.reading.Done()
	for d.pipe.Read(hasInput) == nil {
		select {
		case readable <- struct{}{}:
		case <-d.hush:
			return
		}
	}
}

// hasInput reports whether a read would return at once, with data or at the end of the pipe.
func hasInput(fd uintptr) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n != 0
}

// read returns the complete requests in the pipe; open is false once the driver process has closed it. It does not wait, and keeps
// the beginning of a request for the next call. A line that is no request becomes a request with err set. It reads once, which is
// all that a pipe holds: so a driver process that sends without end cannot occupy the guard.
func (d *driver) read() (waiting []request, open bool) {
	var n int
	var err error
	closed := d.pipe.Control(func(fd uintptr) { n, err = unix.Read(int(fd), d.buffer) })
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return nil, true
	case closed != nil || err != nil || n == 0:
		return nil, false
	}
	d.partial = append(d.partial, d.buffer[:n]...)
	for {
		line, rest, whole := bytes.Cut(d.partial, []byte("\n"))
		if !whole && len(line) < lineBytes {
			return waiting, true
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			r.err = fmt.Errorf("the driver process sent %q: %w", line[:min(len(line), lineShown)], err)
		}
		waiting = append(waiting, r)
		d.partial = rest
	}
}

// hangUp closes the pipes to the driver process, and waits for the end of listen. A driver process that is still alive takes that
// for the death of its guard. A second call does nothing.
func (d *driver) hangUp() {
	if d.in == nil {
		return
	}
	close(d.hush)
	d.in.Close()
	d.out.Close()
	d.reading.Wait()
	d.in, d.readable = nil, nil
}

func (d *driver) signal(sig syscall.Signal) {
	if d != nil && !d.ended {
		_ = syscall.Kill(d.PID, sig) // it has not been reaped, so no other process has its PID
	}
}

func (d *driver) reaped(pid int, status syscall.WaitStatus) {
	if d == nil || d.ended || pid != d.PID {
		return
	}
	d.ended, d.code = true, status.ExitStatus()
	if status.Signaled() {
		d.code = signalOffset + int(status.Signal())
	}
}

// expect sets the instant of package boottime at which the driver process is killed, and the reason; 0: it is not killed. It
// replaces the earlier instant. If the alarm cannot be set, the driver process is killed at once.
func (g *supervisor) expect(at time.Duration, why error) {
	g.killAt, g.killFor = at, why
	if err := g.alarm.set(at); err != nil {
		g.why = err // kill now: without an alarm the guard cannot keep the deadline
	}
}

// overdue returns the reason for which the driver process must be killed now; nil if it need not. If the deadline has passed,
// overdue first handles the requests that the driver process sent meanwhile, which may extend it: the guard itself may have been
// frozen.
func (g *supervisor) overdue() error {
	if g.pastDeadline() {
		g.takeRequests()
	}
	if g.why == nil && g.pastDeadline() {
		return g.killFor
	}
	return g.why
}

func (g *supervisor) pastDeadline() bool { return g.killAt != 0 && boottime.Now() >= g.killAt }

// takeRequests handles the requests that the driver process has sent so far, and does not wait for more. Once the driver process
// has closed the pipe, it does nothing.
func (g *supervisor) takeRequests() {
	if g.driver.readable == nil {
		return
	}
	waiting, open := g.driver.read()
	for _, r := range waiting {
		g.take(r)
	}
	if !open {
		g.driver.readable = nil
	}
}

func (g *supervisor) take(r request) {
	a := answer{N: r.N}
	var err error
	switch {
	case r.err != nil:
		g.why = r.err
	case r.Attached:
		g.expect(0, nil)
		a.Hello = g.hello()
	case r.Extend != nil:
		g.extend(*r.Extend)
	case r.Use != "":
		err = g.use(r.Use)
	case len(r.Forget) > 0:
		err = g.forget(r.Forget)
	case len(r.Keep) > 0:
		err = g.counts.keep(r.Keep)
	}
	if err != nil {
		a.Err = err.Error()
	}
	if r.N != 0 {
		_ = send(g.driver.out, a) // a driver process that does not read gets no answer
	}
}

// extend sets the deadline of the driver process, an instant of package boottime; 0 or less: there is none. So that nothing is left
// at the deadline, the guard begins to kill before it: by Limits.Margin, or by a quarter of the time to the deadline if that is
// less.
func (g *supervisor) extend(deadline time.Duration) {
	if deadline <= 0 {
		g.expect(0, nil)
		return
	}
	margin := max(0, min(g.Limits.Margin, (deadline-boottime.Now())/4))
	g.expect(deadline-margin, errDeadline)
}

func (g *supervisor) use(id string) error {
	if !validName.MatchString(id) {
		return fmt.Errorf("%q is no worker id", id)
	}
	next := g.lockFile.list
	next.Workers = withWorker(next.Workers, id)
	return g.lockFile.write(next)
}

func (g *supervisor) forget(ids []string) error {
	next := g.lockFile.list
	next.Workers = without(next.Workers, ids)
	return g.lockFile.write(next)
}

func (g *supervisor) hello() *hello {
	h := &hello{
		Containment: containment, Cgroup: string(g.cgroup), Replaces: g.replaces(),
		Replaced: maps.Clone(g.counts.replaced), Kept: maps.Clone(g.counts.kept),
	}
	if g.cgroup != "" {
		h.Containment = "cgroup"
	}
	return h
}

// replaces returns the worker ids in the lock file, for a driver process that has just started: all processes of them are gone
// then. It returns nil on systems where the guard cannot verify that.
func (g *supervisor) replaces() []string {
	if !verifies {
		return nil
	}
	return slices.Clone(g.lockFile.list.Workers)
}

// pipes are the descriptors between guard and driver process. They are plain numbers, because an os.File might make them
// blocking.
type pipes struct {
	null, ourIn, ourOut, theirIn, theirOut int
}

func openPipes() (*pipes, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p := &pipes{null: null, ourIn: -1, ourOut: -1, theirIn: -1, theirOut: -1}
	if p.theirIn, p.ourOut, err = pipe(); err == nil {
		p.ourIn, p.theirOut, err = pipe()
	}
	if err != nil {
		p.closeTheirs()
		p.closeOurs()
		return nil, err
	}
	return p, nil
}

func pipe() (r, w int, err error) {
	var ends [2]int
	if err := pipe2(ends[:]); err != nil {
		return -1, -1, err
	}
	return ends[0], ends[1], nil
}

func (p *pipes) closeTheirs() { closeAll(p.null, p.theirIn, p.theirOut) }

func (p *pipes) closeOurs() { closeAll(p.ourIn, p.ourOut) }

func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// marker returns the variable that names the descriptors of the driver process with their inodes, as NAME=VALUE. lock is the inode
// of the lock file. Attach compares the inodes: a task that inherits the variable has other files under these numbers.
func (p *pipes) marker(lock uint64) string {
	return fmt.Sprintf("%s=%d:%d %d:%d %d:%d", marker, fromGuardFD, inode(p.theirIn), toGuardFD, inode(p.theirOut), lockFD, lock)
}

func unmarked(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, marker+"=") })
}

func inode(fd int) uint64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}
