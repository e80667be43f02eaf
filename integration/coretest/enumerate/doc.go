// Package enumerate plays every history of small graphs, and compares each end with the one that follows from graph,
// outcomes and control alone.
//
// A history is a chain of drives. A drive is played from its stored state once for every sequence of choices: which body
// ends next, when a control is made, where a crash happens and how many rows of the batch it lets through. The clock
// stands still, because nothing in these graphs waits for it. So equal stored states have equal futures: the future of
// each state is played once and counted as often as the state is reached.
//
// The expected ends are computed with a few lines of array code from the language, without the core or the model. Each
// stored row is checked as well: no start before its edges, no final row written again, no attempt number skipped or used
// twice, nothing started that a control forbids.
//
// The package starts no goroutine and reads no clock.
package enumerate
