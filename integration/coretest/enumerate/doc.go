// Package enumerate plays every history of small graphs, and holds each end against what graph, outcomes and control
// alone say it must be.
//
// A history is a chain of drives. A drive is played again from its stored state once for every sequence of choices: which
// body ends next, at which point a control is made, where a crash comes and how many rows of the batch it let through. The
// clock stands still, for nothing in these graphs waits for it; so equal stored states have equal futures, and the future
// of each is played once and counted as often as it is reached.
//
// The expected ends are worked out with a few lines of arrays, from the language, without asking the core or the model. Each
// row that is stored is looked at as well: no start before its edges, no final row written again, no attempt number
// skipped or used twice, nothing started that a control forbids.
//
// The package starts no goroutine and looks at no clock.
package enumerate
