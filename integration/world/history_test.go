package world

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// Lengths and limits of a history.
const (
	ttl        = 9 * time.Second
	beatEvery  = ttl / 6
	storm      = 100 * time.Second // how long the faults go on
	patience   = 4 * time.Hour     // how long every run may take to end after the storm
	callLimit  = 10 * time.Second  // of a call that a session makes
	traceShown = 120               // lines
)

// history is one play of the world.
type history struct {
	seed   uint64
	store  *store
	graphs map[string]*dagrun.Graph
	runs   []queue.RunID
	began  time.Time
	calmAt time.Time
	all    sync.WaitGroup // all goroutines that act
	places []*place

	mu     sync.Mutex
	counts Counts
	broken []string
	trace  []string
	told   bool
}

func newHistory(seed uint64) *history {
	return &history{seed: seed, graphs: map[string]*dagrun.Graph{}}
}

// play plays the history inside a bubble with its own time.
func (h *history) play(ctx context.Context) {
	h.began = time.Now()
	h.calmAt = h.began.Add(storm)
	h.store = newStore(h)
	h.setUp(ctx)
	over, end := context.WithCancel(ctx)
	h.all.Go(func() { h.people(over) })
	h.all.Go(func() { h.watchSharing(over) })
	for _, p := range h.places {
		h.all.Go(func() { p.inhabit(over) })
	}
	h.waitForAll(ctx)
	h.epilogue()
	end()
	h.all.Wait()
	h.store.audit.atEnd(ctx)
}

// setUp registers DAGs, enqueues runs, and makes places for workers.
func (h *history) setUp(ctx context.Context) {
	r := draw(h.seed, "set up")
	h.put(ctx, "child", childDAG)
	var names []string
	for i := range 1 + r.IntN(3) {
		name := fmt.Sprintf("d%d", i)
		source := randomDAG(r, name)
		if i == 0 {
			h.store.audit.pulse, source = newPulse(draw(h.seed, pulseName), name, source, h.began, h.calmAt)
		}
		h.put(ctx, name, source)
		names = append(names, name)
	}
	runs := 2 + r.IntN(5)
	if oneIn(r, 4) {
		runs *= 5
	}
	for range runs {
		id, err := h.store.memory.Enqueue(ctx, queue.Request{DAG: names[r.IntN(len(names))]})
		if err != nil {
			panic(err)
		}
		h.runs = append(h.runs, id)
	}
	for i := range 2 + r.IntN(3) {
		h.places = append(h.places, &place{history: h, name: fmt.Sprintf("w%d", i), slots: 1 + r.IntN(4)})
	}
}

func (h *history) put(ctx context.Context, name, source string) {
	h.say("dag:\n%s", source)
	spec, err := dagspec.Parse(name+".yaml", []byte(source))
	if err != nil {
		panic(fmt.Sprintf("the generator made what is no DAG: %v\n%s", err, source))
	}
	if h.graphs[name], err = spec.Graph(); err != nil {
		panic(err)
	}
	if _, err := h.store.memory.PutDAG(ctx, spec, source, name); err != nil {
		panic(err)
	}
}

// calm reports whether the faults are over.
func (h *history) calm() bool { return !time.Now().Before(h.calmAt) }

// waitForAll waits for the end of the storm, and then until every run has ended.
func (h *history) waitForAll(ctx context.Context) {
	time.Sleep(storm)
	for end := time.Now().Add(patience); ; time.Sleep(time.Second) {
		open := h.store.audit.open(ctx)
		if open == "" || h.isBroken() {
			return
		}
		if time.Now().After(end) {
			h.breaks("S6: a run does not end: %s", open)
			return
		}
	}
}

// epilogue begins when every run has ended. What workers do when all must stop at once is neither told nor counted.
func (h *history) epilogue() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = true
}

// say adds a line to the history.
func (h *history) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told {
		return
	}
	h.trace = append(h.trace, fmt.Sprintf("%11.6f  ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
}

// breaks notes a broken invariant.
func (h *history) breaks(format string, args ...any) {
	h.say("BROKEN "+format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = append(h.broken, fmt.Sprintf(format, args...))
}

func (h *history) isBroken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.broken) > 0
}

// count changes the counts under their lock.
func (h *history) count(do func(*Counts)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.told {
		do(&h.counts)
	}
}

// tell returns the last lines of the history.
func (h *history) tell(lines int) string {
	return strings.Join(h.trace[max(0, len(h.trace)-lines):], "\n")
}

// store is the store in memory with the audit. It handles one call at a time, so that the audit sees the order of writes.
type store struct {
	memory *storetest.Memory
	audit  *audit
	mu     sync.Mutex
}

func newStore(h *history) *store {
	s := &store{memory: storetest.NewMemory(storetest.Options{
		Now: time.Now, Boot: func() time.Duration { return time.Since(h.began) }, User: "app",
	})}
	for name, slots := range pools {
		if _, err := s.memory.SetPool(context.Background(), name, queue.PoolLimits{Slots: slots}); err != nil {
			h.breaks("set pool %s: %v", name, err)
		}
	}
	s.audit = newAudit(h, s.memory)
	return s
}
