// Package dagruntest holds what the core, package dagrun, is tested with.
//
// The reference model (Model) is a second implementation, written from the language alone and as plainly as
// possible: after every event it looks at everything again, from scratch, until nothing changes. It is slow and
// knows no index, no queue and no cache. Where model and core disagree, one of them is wrong.
//
// Around it:
//
//   - Bench drives a core and the model side by side over a small store and compares them after every event.
//   - Choices turns random numbers, or the bytes of a fuzzer, into graphs (RandomSpec) and histories (Play).
//   - Enumerate walks all small graphs, outcomes, completion orders and crashes.
//   - World is a simulation of several workers, a database with claims, fence and inbox, and a clock: one seed is
//     one history.
//   - Script reads and runs the text files below testdata, which are the rules of the language as examples.
//
// Nothing here starts a goroutine or looks at a clock. The package knows neither a database nor a process.
package dagruntest
