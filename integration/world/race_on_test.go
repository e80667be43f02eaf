//go:build race

package world

// The race detector schedules goroutines at random.
const (
	raced    = true
	normally = 30 // histories: each takes ten times as long under the race detector; nightly plays many more
)
