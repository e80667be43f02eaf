//go:build unix

package supervise

import (
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

// driver is one driver process, from its start until it was reaped. Its methods do nothing on nil.
type driver struct {
	identity
	since    time.Duration // boot to start
	requests chan request  // closed when the process closed its end
	in, out  *os.File
	hush     chan struct{} // the guard listens no more
	reading  sync.WaitGroup
	ended    bool
	code     int
}

var (
	errNotAttached = errors.New("the driver process did not attach in time")
	errDeadline    = errors.New("its lease ends without a sign of life from the database, or it was frozen")
)

// drive has one driver process, from its start until nothing of it is left. A code comes with every end, an error only
// when that could not be reached and the guard was asked to stop.
func (g *guard) drive() (int, error) {
	g.why, g.driver, g.over = nil, nil, nil
	g.makeCgroup()
	defer g.dropCgroup()
	if err := g.start(); err != nil {
		g.driver = &driver{since: boottime.Now(), ended: true, code: -1}
		g.Say(Event{Kind: Ended, Code: -1, Err: err, Last: g.isLast(-1)})
		return -1, nil
	}
	defer g.driver.hangUp()
	for !g.driver.ended && g.overdue() == nil {
		g.turn(forever)
	}
	dying := boottime.Now()
	if err := g.overdue(); err != nil && !g.driver.ended {
		g.over = err
		g.Say(Event{Kind: Overdue, PID: g.driver.PID, Err: err})
	}
	g.driver.hangUp() // what it asked for with its last breath it was never granted
	g.expect(0, nil)
	if !g.clear(g.descendants) {
		return g.driver.code, errLeft
	}
	g.Say(Event{Kind: Ended, PID: g.driver.PID, Code: g.driver.code, Took: boottime.Now() - dying, Last: g.isLast(g.driver.code)})
	return g.driver.code, nil
}

// start makes a driver process in a session of its own: what a terminal sends to the guard's reaches it once, by way of the
// guard, and the death of the guard does not send SIGHUP to one that is stopped, as to an orphaned group.
func (g *guard) start() error {
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
		Env:   append(unmarked(g.Env), pipes.marker(g.ledger.file().Inode)),
		Files: []uintptr{uintptr(pipes.null), 1, 2, uintptr(pipes.theirIn), uintptr(pipes.theirOut), uintptr(g.ledger.fd)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		pipes.closeOurs()
		return fmt.Errorf("start the driver process %s: %w", path, err)
	}
	g.driver = newDriver(pid, pipes)
	g.expect(boottime.Now()+g.Limits.Attach, errNotAttached)
	g.contain(pid)
	next := g.ledger.list
	next.Driver = g.driver.identity
	g.write(next)
	g.Say(Event{Kind: Started, PID: pid, Workers: g.replaces()})
	return nil
}

// contain moves the driver process to the cgroup. It waits in Attach meanwhile and has started nothing.
func (g *guard) contain(pid int) {
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
		requests: make(chan request), hush: make(chan struct{}),
		in: os.NewFile(uintptr(p.ourIn), "from driver process"), out: os.NewFile(uintptr(p.ourOut), "to driver process"),
	}
	d.reading.Add(1)
	go d.listen()
	return d
}

// listen hands on what the driver process sends, until either side is through.
func (d *driver) listen() {
	defer d.reading.Done()
	defer close(d.requests)
	for s := lines(d.in); s.Scan(); {
		var r request
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			r.err = fmt.Errorf("the driver process sent %q: %w", s.Text(), err)
		}
		select {
		case d.requests <- r:
		case <-d.hush:
			return
		}
	}
}

// hangUp closes the pipes. The driver process, should it still live, sees that as the death of its guard.
func (d *driver) hangUp() {
	if d.in == nil {
		return
	}
	close(d.hush)
	d.in.Close()
	d.out.Close()
	d.reading.Wait()
	d.in, d.requests = nil, nil
}

func (d *driver) signal(sig syscall.Signal) {
	if d != nil && !d.ended {
		_ = syscall.Kill(d.PID, sig) // not reaped yet, so the PID is nobody else's
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

// expect sets the instant at which the driver process is killed, and why. 0 is never.
func (g *guard) expect(at time.Duration, why error) {
	g.killAt, g.killFor = at, why
	if err := g.alarm.set(at); err != nil {
		g.why = err // without an alarm there is no promise
	}
}

// overdue says why the driver process must be killed now, if it must.
func (g *guard) overdue() error {
	if g.why == nil && g.killAt != 0 && boottime.Now() >= g.killAt {
		return g.killFor
	}
	return g.why
}

// take does what the driver process asks for.
func (g *guard) take(r request, open bool) {
	if !open {
		g.driver.requests = nil
		return
	}
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
		_ = send(g.driver.out, a) // one that does not read must live with having no answer
	}
}

// extend begins to kill a little before the deadline, so that nothing is left at it.
func (g *guard) extend(deadline time.Duration) {
	if deadline <= 0 {
		g.expect(0, nil)
		return
	}
	margin := max(0, min(g.Limits.Margin, (deadline-boottime.Now())/4))
	g.expect(deadline-margin, errDeadline)
}

func (g *guard) use(id string) error {
	if !validName.MatchString(id) {
		return fmt.Errorf("%q is no worker id", id)
	}
	next := g.ledger.list
	next.Workers = withWorker(next.Workers, id)
	return g.ledger.write(next)
}

func (g *guard) forget(ids []string) error {
	next := g.ledger.list
	next.Workers = without(next.Workers, ids)
	return g.ledger.write(next)
}

func (g *guard) hello() *hello {
	h := &hello{
		Containment: containment, Cgroup: string(g.cgroup), Replaces: g.replaces(),
		Replaced: maps.Clone(g.counts.replaced), Kept: maps.Clone(g.counts.kept),
	}
	if g.cgroup != "" {
		h.Containment = "cgroup"
	}
	return h
}

// replaces lists the ids whose processes are known to be gone.
func (g *guard) replaces() []string {
	if !verifies {
		return nil
	}
	return slices.Clone(g.ledger.list.Workers)
}

// pipes are the descriptors between a guard and a driver process, bare so that nothing makes them blocking.
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

// marker names the descriptors and what they are: a task that inherits the variable has other files under these numbers.
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
