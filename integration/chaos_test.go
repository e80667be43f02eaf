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

	"github.com/oarlock-dev/oarlock/integration/chaos/traffic"
	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/migrations"
)

// A fault run is a seed: traffic, faults, and the checks afterwards. The seeds of a lane share a server, one after the
// other. Lanes run side by side, since a seed mostly waits.
var (
	chaosSeeds = flag.Int("chaos.seeds", 1, "how many seeds to play")
	chaosSeed  = flag.Uint64("chaos.seed", 0, "play this seed alone")
	chaosFrom  = flag.Uint64("chaos.from", 1, "the first seed")
	chaosLanes = flag.Int("chaos.lanes", 2, "how many seeds at once")
	chaosScene = flag.String("chaos.scene", "", "play this scene, whatever the seed says")
	chaosUntil = flag.String("chaos.until", "", "begin no seed once this file exists")
)

// Times of a seed. The lease is short, so that a seed sees many of them. A busy machine may lose leases without a fault,
// which makes no difference to the checks.
const (
	chaosTTL     = 3 * time.Second
	chaosFaults  = 12 * time.Second // how long there are faults
	chaosWorkers = 3
	chaosSlots   = 4 // of each worker: fewer than there are tasks at a time
	chaosRuns    = 26
	chaosSettle  = 3 * time.Minute // how long everything may take to end after the last fault: a deadline, no promise
)

// scene is the kind of servers and clocks of a seed.
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
	summary := newChaosSummary()
	t.Cleanup(func() { t.Log(summary) })
	lanes := min(*chaosLanes, len(seeds))
	for n := range lanes {
		t.Run(fmt.Sprintf("lane %d", n), func(t *testing.T) {
			if lanes > 1 { // a single lane runs with its test: a parallel subtest would wait until all other tests had begun
				t.Parallel()
			}
			l := newLane(t)
			for seed := range seeds {
				if _, err := os.Stat(*chaosUntil); *chaosUntil != "" && err == nil {
					return
				}
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { l.play(t, seed, summary) })
			}
		})
	}
}

// lane is a server that seeds use one after the other, whatever faults they cause.
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
	if err := migrations.Roles(t.Context(), node.URL()); err != nil {
		t.Fatal(err)
	}
	if err := script(t.Context(), node.URL(), "roles"); err != nil {
		t.Fatal(err)
	}
	return node
}

// play plays one seed.
func (l *lane) play(t *testing.T, seed uint64, summary *chaosSummary) {
	began := time.Now()
	r := rand.New(rand.NewPCG(seed, 0))
	a := newChaosBundle(t, l, seed, sceneOf(r))
	plan := traffic.New(r, traffic.Options{Runs: chaosRuns, Over: chaosFaults * 2 / 3, LongTicks: int(chaosTTL * 5 / 4 / tick)})
	t.Logf("seed %d: %s; again with: make chaos SEED=%d", seed, a.scene, seed)
	a.putAll(t, plan)
	lag := watchLag()
	a.startWorkers(t)
	if a.scene != clockScene { // in that scene runs become due by one clock and are ranked by another
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
	summary.add(a.scene, res)
	t.Logf("seed %d: %d faults, %d tasks, %d violations, %d ms, lag %d ms", seed, sum(res.faults), res.counts["tasks"], len(res.violations), time.Since(began).Milliseconds(), res.lag.Milliseconds())
	for _, i := range res.inconclusive {
		t.Logf("inconclusive, since this machine stood still for %d ms: %s", res.lag.Milliseconds(), i)
	}
	if len(res.violations) > 0 {
		t.Errorf("seed %d broke %d promises:\n%s", seed, len(res.violations), strings.Join(res.violations, "\n"))
	}
}

// lag measures how long this machine makes a process wait for its turn.
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
