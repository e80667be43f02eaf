//go:build unix

package supervise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

const (
	forever      = time.Duration(math.MaxInt64)
	lockEvery    = 20 * time.Millisecond // between two tries of a lock that is taken
	firstDelay   = 100 * time.Millisecond
	stopAtOnce   = 3 // after this many requests to stop, the guard kills
	waitingSigs  = 16
	signalOffset = 128 // added to the signal in exit codes of killed processes, as in shells
)

var (
	errAskedThrice = errors.New("asked to stop for the third time")
	errLeft        = errors.New("processes survive SIGKILL")
)

// heard are the signals that the guard handles. SIGTSTP would stop the guard but not the driver process, and SIGPIPE, from a
// closed stderr, would end the guard.
var heard = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGPIPE}

// supervisor is the state of one Run. It belongs to the goroutine of Run; other goroutines only send to its channels.
type supervisor struct {
	Config

	lockFile *lockFile
	host     host
	cgroup   cgroup // "": there is none
	alarm    *alarm

	children  chan os.Signal
	signals   chan os.Signal
	ctxDone   <-chan struct{}
	asked     int               // number of requests to stop
	inherited map[identity]bool // children from before Run, of a shell that started some and then executed this program
	childless bool              // the kernel said so at the last reap

	driver  *driver
	killAt  time.Duration // since boot; 0: never
	killFor error         // reason to kill at killAt
	why     error         // reason to kill now; nil: none
	backoff *backoff.ExponentialBackOff
	short   int   // number of driver processes in a row that did not live long
	over    error // reason for which the last driver process was killed; nil: it was not
	counts  counts
}

// Run starts a driver process, and after its end another one, until one ends on purpose: with exit code 0 or one in Config.Final.
// It also returns when it was asked to stop, by a signal or by the end of ctx, and the driver process has ended. Nothing of a
// driver process is left when the next one starts and when Run returns; if processes survive SIGKILL after a request to stop, Run
// returns an error.
//
// Run returns the exit code of the last driver process: 128 and the signal if it was killed, -1 if it could not be started, 0 if
// Run stopped before it started one.
//
// SIGTERM, SIGINT and SIGHUP are passed on to the driver process, and the end of ctx as a SIGTERM. At the third the guard kills.
func Run(ctx context.Context, cfg Config) (int, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return 0, fmt.Errorf("guard: %w", err)
	}
	g, err := open(ctx, cfg)
	if err != nil {
		return 0, fmt.Errorf("guard: %w", err)
	}
	defer g.close()
	code, err := g.run()
	if err != nil {
		return code, fmt.Errorf("guard: %w", err)
	}
	return code, nil
}

func open(ctx context.Context, cfg Config) (*supervisor, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	all, err := listProcesses()
	if err != nil {
		return nil, err
	}
	l, err := openLockFile(cfg.StateDir, cfg.Name)
	if err != nil {
		return nil, err
	}
	a, err := newAlarm()
	if err != nil {
		l.close()
		return nil, err
	}
	g := &supervisor{
		Config: cfg, lockFile: l, host: thisHost(), alarm: a,
		children: make(chan os.Signal, 1), signals: make(chan os.Signal, waitingSigs), ctxDone: ctx.Done(),
		inherited: childrenOf(all, os.Getpid()), counts: newCounts(),
		backoff: &backoff.ExponentialBackOff{InitialInterval: firstDelay, Multiplier: 2, RandomizationFactor: 0.3, MaxInterval: cfg.Limits.MaxDelay},
	}
	g.backoff.Reset()
	signal.Notify(g.children, syscall.SIGCHLD)
	for _, sig := range heard {
		if !signal.Ignored(sig) { // nohup and shells have processes ignore signals on purpose
			signal.Notify(g.signals, sig)
		}
	}
	return g, nil
}

func (g *supervisor) close() {
	signal.Stop(g.signals)
	signal.Stop(g.children)
	g.alarm.close()
	g.lockFile.close()
}

func (g *supervisor) run() (int, error) {
	if err := g.lock(); err != nil || g.asked > 0 {
		return 0, err
	}
	if err := g.begin(); err != nil || g.asked > 0 {
		return 0, err
	}
	for {
		code, err := g.drive()
		if err != nil || g.isLast(code) {
			return code, err
		}
		g.counts.replaced[g.whyReplaced(g.over)]++
		if g.rest(); g.asked > 0 {
			return code, nil
		}
	}
}

// isLast reports whether no driver process follows after one that ended with an exit code: the guard was asked to stop, or the
// process ended on purpose. The code of a driver process that was about to be killed does not count, since it may have ended by
// itself in the meantime.
func (g *supervisor) isLast(code int) bool {
	return g.asked > 0 || g.over == nil && (code == 0 || slices.Contains(g.Final, code))
}

// turn waits for one event, for d at most, handles it, and reaps the children that have ended. Every wait of a guard is a loop
// around turn, so that events are handled in every phase.
func (g *supervisor) turn(d time.Duration) {
	var readable chan struct{}
	if g.driver != nil {
		readable = g.driver.readable
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-g.children: // handled by reap below
	case sig := <-g.signals:
		g.hear(sig)
	case <-g.ctxDone:
		g.ctxDone = nil
		g.hear(syscall.SIGTERM)
	case <-readable:
		g.takeRequests()
	case <-g.alarm.C:
	case <-timer.C:
	}
	g.reap()
}

func (g *supervisor) hear(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok || number == syscall.SIGTSTP || number == syscall.SIGPIPE {
		return
	}
	g.asked++
	if g.asked >= stopAtOnce {
		g.why = errAskedThrice
	}
	g.driver.signal(number)
}

// reap reaps the children that have ended, and does not wait for others. It records the exit code of the driver process in
// g.driver, and in g.childless whether no child is left. Only reap does so in this process, so until then the PID of a child means
// that child.
func (g *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|waitAll, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if pid <= 0 {
			g.childless = errors.Is(err, syscall.ECHILD)
			return
		}
		g.driver.reaped(pid, status)
	}
}

// rest waits before the next driver process, for longer each time, up to Limits.MaxDelay. It does not wait after a driver process
// that lived for Limits.Healthy, nor after the first in a row that did not. A request to stop ends the wait.
func (g *supervisor) rest() {
	g.short++
	if boottime.Now()-g.driver.since >= g.Limits.Healthy {
		g.backoff.Reset()
		g.short = 0
	}
	if g.short <= 1 {
		return
	}
	d := g.backoff.NextBackOff()
	g.Say(Event{Kind: Delayed, Wait: d})
	for until := boottime.Now() + d; g.asked == 0 && boottime.Now() < until; {
		g.turn(until - boottime.Now())
	}
}
