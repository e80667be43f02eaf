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
	lockEvery    = 20 * time.Millisecond // how often a taken lock is tried
	firstDelay   = 100 * time.Millisecond
	stopAtOnce   = 3 // requests to stop after which the guard itself kills
	waitingSigs  = 16
	signalOffset = 128 // exit codes of what a signal ended, as shells have it
)

var (
	errAskedThrice = errors.New("asked to stop for the third time")
	errLeft        = errors.New("processes survive SIGKILL")
)

// heard are the signals for which there are handlers. SIGTSTP would stop the guard and leave the driver process alone, and
// SIGPIPE, from a closed stderr, would end it.
var heard = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGPIPE}

// guard is one incarnation. All of it belongs to the goroutine of Run; others only send to its channels.
type guard struct {
	Config

	ledger *ledger
	host   host
	cgroup cgroup // "" without
	alarm  *alarm

	children  chan os.Signal
	signals   chan os.Signal
	ctxDone   <-chan struct{}
	asked     int               // requests to stop
	inherited map[identity]bool // children from before: exec in a shell that had some
	childless bool              // the kernel said so when it was last asked

	driver  *driver
	killAt  time.Duration // since boot; 0 is never
	killFor error         // then
	why     error         // to kill now
	backoff *backoff.ExponentialBackOff
	short   int   // driver processes in a row that did not live long
	over    error // why the last one was killed, if it was
	counts  counts
}

// Run guards driver processes until one ends on purpose or after Run was asked to stop, by a signal or by the end of ctx,
// and nothing is left of it. It returns that one's exit code.
//
// SIGTERM, SIGINT and SIGHUP, and the end of ctx as a SIGTERM, go on to the driver process; at the third the guard kills.
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

func open(ctx context.Context, cfg Config) (*guard, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	all, err := listProcesses()
	if err != nil {
		return nil, err
	}
	l, err := openLedger(cfg.StateDir, cfg.Name)
	if err != nil {
		return nil, err
	}
	a, err := newAlarm()
	if err != nil {
		l.close()
		return nil, err
	}
	g := &guard{
		Config: cfg, ledger: l, host: thisHost(), alarm: a,
		children: make(chan os.Signal, 1), signals: make(chan os.Signal, waitingSigs), ctxDone: ctx.Done(),
		inherited: childrenOf(all, os.Getpid()), counts: newCounts(),
		backoff: &backoff.ExponentialBackOff{InitialInterval: firstDelay, Multiplier: 2, RandomizationFactor: 0.3, MaxInterval: cfg.Limits.MaxDelay},
	}
	g.backoff.Reset()
	signal.Notify(g.children, syscall.SIGCHLD)
	for _, sig := range heard {
		if !signal.Ignored(sig) { // as nohup wants it, and shells for what is in the background
			signal.Notify(g.signals, sig)
		}
	}
	return g, nil
}

func (g *guard) close() {
	signal.Stop(g.signals)
	signal.Stop(g.children)
	g.alarm.close()
	g.ledger.close()
}

func (g *guard) run() (int, error) {
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

// isLast says whether no driver process follows one that ended with this code. One that was to be killed may still end by
// itself: its code then tells nothing.
func (g *guard) isLast(code int) bool {
	return g.asked > 0 || g.over == nil && (code == 0 || slices.Contains(g.Final, code))
}

// turn waits for one thing to happen, for d at the longest, and takes it in. Every wait of a guard is a loop around it, so
// whatever happens is heard in every phase.
func (g *guard) turn(d time.Duration) {
	var readable chan struct{}
	if g.driver != nil {
		readable = g.driver.readable
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-g.children: // whoever looks reaps
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

func (g *guard) hear(sig os.Signal) {
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

// reap takes in who ended. Nobody else in this process may, so a PID of a child means that child until then.
func (g *guard) reap() {
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

// rest waits before a successor. After a driver process that lived long it starts at once, and so does the first after
// one that did not.
func (g *guard) rest() {
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
