package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/chaos/report"
	"github.com/oarlock-dev/oarlock/integration/chaos/traffic"
	"github.com/oarlock-dev/oarlock/internal/pgcluster"
	"github.com/oarlock-dev/oarlock/migrations"
)

// A fault run is a seed: traffic, faults, and what is checked afterwards. Seeds share a server with those before them, one
// lane of seeds after the other; lanes go side by side, since most of what a seed does is wait.
var (
	chaosSeeds   = flag.Int("chaos.seeds", 1, "how many seeds to play")
	chaosSeed    = flag.Uint64("chaos.seed", 0, "play this seed alone")
	chaosFrom    = flag.Uint64("chaos.from", 1, "the first seed")
	chaosLanes   = flag.Int("chaos.lanes", 2, "how many seeds at once")
	chaosResults = flag.String("chaos.results", "", "append a line of JSON per seed to this file")
	chaosScene   = flag.String("chaos.scene", "", "play this scene, whatever the seed says")
	chaosUntil   = flag.String("chaos.until", "", "begin no seed once this file exists")
)

// Times of a seed. The lease is short, so that a seed sees many; whether a machine that is busy loses some for no reason
// makes no difference to what is checked.
const (
	chaosTTL     = 3 * time.Second
	chaosBeat    = 500 * time.Millisecond
	chaosFaults  = 12 * time.Second // for how long there are faults
	chaosWorkers = 3
	chaosSlots   = 4 // of each: fewer than there are tasks at a time
	chaosRuns    = 26
	chaosSettle  = 3 * time.Minute // by when all is over once nobody breaks anything any more: a deadline, no promise
)

// scene is what a seed's servers and clocks are like.
type scene string

const (
	plainScene   scene = "plain"
	syncScene    scene = "synchronous failover"
	asyncScene   scene = "asynchronous failover"
	clockScene   scene = "stepped clocks"
	diskScene    scene = "small disk"
	networkScene scene = "network namespace"
)

func sceneOf(r *rand.Rand) scene {
	chosen := plainScene
	switch n := r.IntN(20); {
	case n < 3:
		chosen = clockScene
	case n < 5:
		chosen = syncScene
	case n < 6:
		chosen = asyncScene
	case n < 7:
		chosen = diskScene
	case n < 9:
		chosen = networkScene
	}
	if os.Getuid() != 0 && (chosen == diskScene || chosen == networkScene) {
		chosen = plainScene
	}
	if *chaosScene != "" {
		chosen = scene(*chaosScene)
	}
	return chosen
}

func TestChaos(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts servers")
	}
	seeds := make(chan uint64, *chaosSeeds)
	if *chaosSeed != 0 {
		seeds <- *chaosSeed
	} else {
		for i := range uint64(*chaosSeeds) {
			seeds <- *chaosFrom + i
		}
	}
	close(seeds)
	lanes := min(*chaosLanes, len(seeds))
	for n := range lanes {
		t.Run(fmt.Sprintf("lane %d", n), func(t *testing.T) {
			if lanes > 1 { // one alone begins with its test: a parallel one would wait until all other tests had begun
				t.Parallel()
			}
			l := newLane(t)
			for seed := range seeds {
				if _, err := os.Stat(*chaosUntil); *chaosUntil != "" && err == nil {
					return
				}
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { l.play(t, seed) })
			}
		})
	}
}

// lane is a server that seeds use one after the other, whatever they do to it.
type lane struct {
	t    *testing.T
	node *pgcluster.Node
}

func newLane(t *testing.T) *lane {
	t.Helper()
	return &lane{t: t, node: newChaosNode(t, pgcluster.Start(t, chaosServer))}
}

var chaosServer = map[string]string{"max_connections": "120", "max_wal_size": "256MB"}

// newChaosNode prepares a server to be copied from.
func newChaosNode(t *testing.T, node *pgcluster.Node) *pgcluster.Node {
	t.Helper()
	node.Migrate(t)
	if err := migrations.Roles(t.Context(), node.URL()); err != nil {
		t.Fatal(err)
	}
	if err := script(t.Context(), node.URL(), "roles"); err != nil {
		t.Fatal(err)
	}
	return node
}

// play is one seed.
func (l *lane) play(t *testing.T, seed uint64) {
	began := time.Now()
	r := rand.New(rand.NewPCG(seed, 0))
	a := newArena(t, l, seed, sceneOf(r))
	plan := traffic.New(r, traffic.Options{Runs: chaosRuns, Over: chaosFaults * 2 / 3, LongTicks: int(chaosTTL * 5 / 4 / tick)})
	t.Logf("seed %d: %s; again with: make chaos SEED=%d", seed, a.scene, seed)
	a.putAll(t, plan)
	lag := watchLag()
	a.startWorkers(t)
	if a.scene != clockScene { // whose runs are due by one clock and ranked by another
		a.atWork.Go(a.watchSharing)
	}
	var hands sync.WaitGroup
	end := time.Now().Add(chaosFaults)
	hands.Go(func() { a.ask(plan, rand.New(rand.NewPCG(seed, 1))) })
	hands.Go(func() { a.breakProcesses(rand.New(rand.NewPCG(seed, 2)), end) })
	a.breakDatabase(rand.New(rand.NewPCG(seed, 3)), end)
	hands.Wait()
	a.heal(t)
	over := a.awaitAll(t)
	if over {
		a.rush(plan)
		over = a.awaitAll(t)
	}
	a.stopClients()
	a.stopWorkers(t)
	res := a.judge(t, plan, over, lag.stop())
	res.Seed, res.Scene, res.At, res.TookMS = seed, string(a.scene), began.UTC().Format(time.RFC3339), time.Since(began).Milliseconds()
	finish(t, res)
}

// finish says what a seed came to.
func finish(t *testing.T, res *report.Result) {
	t.Helper()
	if *chaosResults != "" {
		if err := report.Append(*chaosResults, res); err != nil {
			t.Error(err)
		}
	}
	faults := 0
	for _, n := range res.Faults {
		faults += n
	}
	t.Logf("seed %d: %d faults, %d runs, %d tasks, %d takeovers, %d violations, %d ms, lag %d ms", res.Seed, faults, res.Runs, res.Tasks, res.Takeovers, len(res.Violations), res.TookMS, res.LagMS)
	for _, i := range res.Inconclusive {
		t.Logf("inconclusive, since this machine stood still for %d ms: %s", res.LagMS, i)
	}
	if len(res.Violations) > 0 {
		t.Errorf("seed %d broke %d promises:\n%s", res.Seed, len(res.Violations), strings.Join(res.Violations, "\n"))
	}
}

// lag measures how long this machine lets a process wait for its turn.
type lag struct {
	done chan struct{}
	most chan time.Duration
}

func watchLag() *lag {
	l := &lag{done: make(chan struct{}), most: make(chan time.Duration, 1)}
	go func() {
		const pause = 20 * time.Millisecond
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		var most time.Duration
		for last := time.Now(); ; {
			select {
			case <-ticker.C:
				most = max(most, time.Since(last)-pause)
				last = time.Now()
			case <-l.done:
				l.most <- most
				return
			}
		}
	}()
	return l
}

func (l *lag) stop() time.Duration {
	close(l.done)
	return <-l.most
}
