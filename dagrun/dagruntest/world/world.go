package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// The lease, as in the real system: a worker renews every beatEvery; it gives up by itself after fenceAfter, its guard
// kills what is left after guardAfter, and others take over after ttl.
const (
	ttl        dagrun.Duration = 30_000
	beatEvery  dagrun.Duration = 5_000
	fenceAfter                 = ttl * 6 / 10
	guardAfter                 = ttl * 7 / 10
	maxDrives                  = 3 // fewer than by default, so that it happens
)

// Config says how large a history is.
type Config struct {
	Seed    uint64
	Workers int
	Runs    int
	Turns   int // with faults
}

// World is one history under way.
type World struct {
	config  Config
	rng     *rand.Rand
	now     dagrun.Time
	calm    bool
	unrest  float64 // how likely a fault is in a turn: some histories are stormier than others
	store   *store
	workers []*worker
	made    int // workers ever made

	Counts Counts
	trace  []string // what happened, newest last
}

// New sets up a history.
func New(c Config) *World {
	w := &World{config: c, rng: rand.New(rand.NewPCG(c.Seed, 0x6f61726c)), now: 1_000_000}
	w.unrest = 0.005 + 0.02*float64(c.Seed%4)
	w.store = newStore(w)
	for range c.Runs {
		w.store.enqueue(w.randomSpec())
	}
	for range c.Workers {
		w.addWorker()
	}
	return w
}

// Run plays the history to its end. The error says which invariant broke, and what led to it.
func (w *World) Run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("seed %d: %v\n%s", w.config.Seed, p, w.tail())
		}
	}()
	for range w.config.Turns {
		w.turn()
	}
	w.calm = true
	for left := 400 * w.config.Runs * maxTurnsPerRun; !w.store.finished(); left-- {
		if left == 0 {
			panic("S6: a run does not end: " + w.store.unfinished())
		}
		w.turn()
	}
	w.store.checkEnd()
	return nil
}

const maxTurnsPerRun = 40

// turn moves the clock and lets somebody do something.
func (w *World) turn() {
	w.Counts.Steps++
	w.advance()
	switch {
	case w.calm || !w.chance(w.unrest):
	default:
		w.fault()
	}
	if w.chance(0.06) {
		w.person()
	}
	w.store.wake()
	w.pick(w.workers).act()
}

// advance moves the clock, mostly a little, sometimes far, and lets guards do their duty on the way.
func (w *World) advance() {
	step := dagrun.Time(w.rng.IntN(400))
	if w.chance(0.05) {
		step = dagrun.Time(w.rng.IntN(6_000))
	}
	w.now += step
	for _, k := range w.workers {
		k.guard()
	}
}

func (w *World) chance(p float64) bool { return w.rng.Float64() < p }

func (w *World) pick(of []*worker) *worker { return of[w.rng.IntN(len(of))] }

// after is a time that lies at most d ahead.
func (w *World) after(d dagrun.Duration) dagrun.Time {
	return w.now + 1 + dagrun.Time(w.rng.Int64N(int64(d)))
}

// fault hurts somebody.
func (w *World) fault() {
	k := w.pick(w.workers)
	switch w.rng.IntN(4) {
	case 0:
		w.kill(k)
	case 1:
		w.Counts.Freezes++
		k.frozenUntil = w.after(3 * ttl)
		w.log("worker %d is frozen until %d", k.id, k.frozenUntil)
	case 2:
		w.Counts.Cuts++
		k.cutUntil = w.after(2 * ttl)
		w.log("worker %d is cut off until %d", k.id, k.cutUntil)
	case 3:
		k.drain()
	}
}

// kill ends a worker and all its bodies; another one takes its place. In half of the cases its guard saw it, and
// has the runs handed on at once.
func (w *World) kill(k *worker) {
	w.Counts.Kills++
	w.log("worker %d is killed", k.id)
	w.remove(k)
	if w.chance(0.5) {
		w.store.lose(k.id)
	}
}

func (w *World) remove(k *worker) {
	k.forgetAll()
	w.workers = slices.DeleteFunc(w.workers, func(x *worker) bool { return x == k })
	w.addWorker()
}

func (w *World) addWorker() {
	w.made++
	k := &worker{world: w, id: w.made, slots: 1 + w.rng.IntN(4), renewed: w.now}
	w.workers = append(w.workers, k)
	w.store.beats[k.id] = &beat{at: w.now, fenced: true}
}

const traceLines = 60

func (w *World) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9d  ", w.now)+fmt.Sprintf(format, args...))
	if len(w.trace) > 10*traceLines {
		w.trace = slices.Clone(w.trace[len(w.trace)-traceLines:])
	}
}

// tail is the newest part of the history.
func (w *World) tail() string {
	return strings.Join(w.trace[max(0, len(w.trace)-traceLines):], "\n")
}
