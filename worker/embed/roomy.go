package embed

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	room      = 64 << 20 // what is allocated at the least between two collections
	standard  = 100      // GOGC where nobody says anything
	mostRoomy = 800
)

// Roomy has the process collect a small heap less often, unless GOGC or GOMEMLIMIT says how it is to be. Go's collector runs
// whenever the heap has doubled. A worker's is a few dozen megabytes, most of it garbage within milliseconds: at full speed it
// would be collected dozens of times a second, for a sixth of its processor time. It is for programs, not for libraries: the
// setting is the process'.
//
// No fixed percentage does as well. BenchmarkChains/function takes 5.1 s of processor time and 130 MB with this; 5.6 s and
// 107 MB at 200, 5.5 s and 195 MB at 400, 5.2 s and 245 MB and more at 800, and 6.6 s and 92 MB at Go's 100. And what is
// fixed applies to a large heap, too: at 400, one of 500 MB would grow to 2.5 GB.
func Roomy() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	p := &pace{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, percent: standard}
	p.adjust()
}

// pace is set anew after each collection: its finalizer runs then, and makes itself the next one's.
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

// cycle is garbage at once.
type cycle struct {
	pace *pace
	_    [32]byte // not one of the tiny objects, which are collected late
}

// percent is how much a heap of which so much is live may grow.
func percent(live uint64) int {
	if live == 0 {
		return mostRoomy
	}
	return int(min(mostRoomy, max(standard, math.Round(100*float64(room)/float64(live)))))
}
