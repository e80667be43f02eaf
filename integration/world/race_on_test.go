//go:build race

package world

// raced says that goroutines are scheduled at random, which the race detector does.
const raced = true
