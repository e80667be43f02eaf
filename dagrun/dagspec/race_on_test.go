//go:build race

package dagspec

// raceFactor is how much slower the race detector makes what tests measure.
const raceFactor = 20
