package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// place is where worker processes run, one after the other.
type place struct {
	history *history
	name    string
	slots   int
	nth     int
}

// inhabit keeps a worker running at the place.
func (p *place) inhabit(ctx context.Context) {
	var replaces []uuid.UUID
	time.Sleep(span(draw(p.history.seed, "place", p.name), time.Millisecond, time.Second))
	for ctx.Err() == nil {
		p.nth++
		proc := newProcess(p, replaces)
		replaces = proc.live(ctx)
	}
}

// process is a driver process with its guard, on a host.
type process struct {
	*history
	place    *place
	name     string
	chance   *rand.Rand // used by the goroutine of the process only
	replaces []uuid.UUID
	worker   *worker.Worker
	dead     chan struct{} // closed: the process was killed with everything it ran
	deadOnce sync.Once

	mu       sync.Mutex
	ids      []uuid.UUID // the worker ids it registered under, the newest last
	deadline time.Duration
	frozen   time.Time // when the driver process goes on
	stopped  time.Time // when it was frozen
	host     bool      // its whole host is frozen
	outlived bool      // its host was frozen until after its lease
	cut      time.Time // when the database is reachable again
	calls    map[string]int
	released bool
}

func newProcess(p *place, replaces []uuid.UUID) *process {
	name := fmt.Sprintf("%s.%d", p.name, p.nth)
	proc := &process{
		history: p.history, place: p, name: name, chance: draw(p.history.seed, "process", name), replaces: replaces,
		dead: make(chan struct{}), calls: map[string]int{},
	}
	w, err := worker.New(worker.Config{
		Register: proc.register,
		Cancel:   proc.cancelChild,
		Self:     queue.Worker{Name: name, Host: p.name, TTL: ttl, Containment: "subreaper", Replaces: replaces},
		Slots:    p.slots, DrainTimeout: 5 * time.Second,
		Executors: map[string]worker.Executor{"process": executor{proc}},
		Logs:      func(sink worker.Writer, _ func() time.Time) worker.Logs { return logs{sink} },
		Guard:     guard{proc},
		Boot:      proc.boot, Even: true,
		Ended: proc.ended,
	})
	if err != nil {
		panic(err)
	}
	proc.worker = w
	return proc
}

// live runs the process to its end, and returns the worker ids that its successor may replace.
func (p *process) live(ctx context.Context) []uuid.UUID {
	p.say("%s starts, replacing %d", p.name, len(p.replaces))
	ended := make(chan error, 1)
	go func() { ended <- p.worker.Run(context.WithoutCancel(ctx)) }()
	watch, unwatch := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(watch) })
	err := p.suffer(ctx, ended)
	unwatch()
	watching.Wait()
	if err != nil && !p.isDead() {
		p.say("%s ends: %v", p.name, err)
	}
	return p.succession(ctx)
}

// suffer strikes the process from time to time, until the process has ended.
func (p *process) suffer(ctx context.Context, ended <-chan error) error {
	for {
		next := time.NewTimer(span(p.chance, 2*time.Second, 30*time.Second))
		select {
		case err := <-ended:
			next.Stop()
			return err
		case <-ctx.Done():
			next.Stop()
			p.worker.StopNow()
			return <-ended
		case <-next.C:
			if !p.calm() {
				p.strike()
			}
		}
	}
}

// strike makes a random fault happen to the process.
func (p *process) strike() {
	switch p.chance.IntN(9) {
	case 0:
		p.count(func(c *Counts) { c.Kills++ })
		p.die("killed")
	case 1:
		p.count(func(c *Counts) { c.HostsLost++ })
		p.mu.Lock()
		p.ids = nil // the guard is gone, too, and cannot report the death
		p.mu.Unlock()
		p.die("lost with its host")
	case 2:
		p.count(func(c *Counts) { c.Stops++ })
		p.say("%s is told to stop", p.name)
		p.worker.Stop()
		if oneIn(p.chance, 3) {
			p.worker.StopNow()
		}
	case 3:
		p.count(func(c *Counts) { c.Drains++ })
		p.say("%s is drained by name", p.name)
		_, _ = p.store.memory.DrainWorker(context.Background(), p.name)
	case 4, 5:
		p.freeze(false, span(p.chance, ttl/10, 2*ttl))
	case 6:
		p.freeze(true, span(p.chance, ttl/10, 3*ttl))
	default:
		p.cutOff(span(p.chance, ttl/20, 2*ttl))
	}
}

// freeze makes the driver process, or its whole host, stand still.
func (p *process) freeze(host bool, d time.Duration) {
	p.count(func(c *Counts) {
		if c.Freezes++; host {
			c.HostFreezes++
		}
		if d > ttl {
			c.OutlivedTTL++
		}
	})
	p.say("%s is frozen for %v, host %t", p.name, d, host)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped, p.frozen, p.host = time.Now(), time.Now().Add(d), host
	p.outlived = p.outlived || host && p.frozen.Sub(p.began) >= p.deadline
}

// stoodStill reports whether the host once stood still until after the lease, so that no guard could end anything in
// time.
func (p *process) stoodStill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outlived
}

func (p *process) cutOff(d time.Duration) {
	p.count(func(c *Counts) { c.Cuts++ })
	p.say("%s is cut off for %v", p.name, d)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = time.Now().Add(d)
}

// boot returns the time since boot as the process sees it. No time passes while it is frozen.
func (p *process) boot() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.frozen) {
		return p.stopped.Sub(p.began)
	}
	return time.Since(p.began)
}

// thaw waits until the driver process, or its host, is no longer frozen, and then for a moment that the caller chose.
func (p *process) thaw(hostOnly bool, moment time.Duration) {
	for waited := false; ; waited = true {
		p.mu.Lock()
		left := time.Until(p.frozen)
		if hostOnly && !p.host {
			left = 0
		}
		p.mu.Unlock()
		if left <= 0 || p.isDead() {
			if waited {
				p.sleep(moment)
			}
			return
		}
		p.sleep(left)
	}
}

// sleep sleeps until d has passed or the process dies.
func (p *process) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.dead:
	}
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// die kills the driver process and all its bodies.
func (p *process) die(how string) {
	p.deadOnce.Do(func() {
		p.say("%s is %s", p.name, how)
		close(p.dead)
	})
	p.worker.StopNow()
}

// isAway returns how long the database is still away.
func (p *process) isAway() (left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.cut)
}

// succession returns the worker ids that the next process may replace, after the time that a start takes.
func (p *process) succession(ctx context.Context) []uuid.UUID {
	if ctx.Err() != nil {
		return nil
	}
	p.mu.Lock()
	replaces := p.ids
	if p.released || !p.isDead() {
		replaces = nil
	}
	p.mu.Unlock()
	wait := span(p.chance, 50*time.Millisecond, time.Second)
	if replaces == nil {
		wait = span(p.chance, 50*time.Millisecond, 2*ttl)
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	return replaces
}

// guard is the guard as the worker sees it.
type guard struct{ *process }

func (g guard) Use(id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ids = append(g.ids, uuid.MustParse(id))
	return nil
}

func (g guard) Extend(deadline time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = deadline
}

// watch plays the guard: at the deadline it kills what is left. Only a frozen host stops it.
func (p *process) watch(ctx context.Context) {
	every := time.NewTicker(ttl / 100)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.dead:
			return
		case <-every.C:
		}
		p.thaw(true, ttl/1000)
		p.mu.Lock()
		due := p.deadline != 0 && time.Since(p.began) >= p.deadline
		p.mu.Unlock()
		if due {
			p.count(func(c *Counts) { c.GuardKills++ })
			p.die("killed by its guard")
			return
		}
	}
}

// ended notes that a worker has ended.
func (p *process) ended(_ uuid.UUID, released bool) error {
	if !released && !p.isDead() {
		p.count(func(c *Counts) { c.LostLeases++ })
		p.say("%s has lost its lease", p.name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline, p.released = 0, released
	return nil
}

func (p *process) cancelChild(ctx context.Context, run queue.RunID, now bool) error {
	_, err := p.store.control(ctx, queue.Ask{Run: run, Verb: dagrun.VerbCancel, Now: now})
	return err
}
