package embed

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	room      = 64 << 20 // least allocation between two collections
	standard  = 100      // Go's default GOGC
	mostRoomy = 800
)

// Roomy makes the process collect a small heap less often, unless GOGC or GOMEMLIMIT is set. Go's collector runs whenever the
// heap has doubled. The heap of a worker has a few dozen megabytes, most of them garbage within milliseconds: at full speed it
// would be collected dozens of times a second, for a sixth of the worker's processor time. Programs call Roomy, libraries must
// not, because the setting applies to the whole process.
//
// No fixed percentage does as well. BenchmarkChains/function takes 5.1 s of processor time and 130 MB with Roomy; 5.6 s and 107
// MB at 200, 5.5 s and 195 MB at 400, 5.2 s and 245 MB and more at 800, and 6.6 s and 92 MB at Go's 100. A fixed percentage also
// applies to a large heap: at 400, one of 500 MB would grow to 2.5 GB.
func Roomy() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	p := &pace{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, percent: standard}
	p.adjust()
}

// pace adjusts GOGC after each collection: the finalizer of a cycle runs then, and makes the next cycle.
type pace struct {
	live    []metrics.Sample
	percent int
}

func (p *pace) adjust() {
	metrics.Read(p.live)
	if want := percent(p.live[0].Value.Uint64()); want != p.percent {
		p.percent = want
		debug.SetGCPercent(want)
	}
	runtime.SetFinalizer(&cycle{pace: p}, func(c *cycle) { c.pace.adjust() })
}

// cycle is an object that nothing refers to, so that the next collection frees it.
type cycle struct {
	pace *pace
	_    [32]byte // makes it larger than Go's tiny objects, which are collected late
}

// percent returns the GOGC for a heap with so many live bytes: by how many percent it may grow, so that about room is allocated
// between two collections.
func percent(live uint64) int {
	if live == 0 {
		return mostRoomy
	}
	return int(min(mostRoomy, max(standard, math.Round(100*float64(room)/float64(live)))))
}
