// Package coretest holds what the core, package dagrun, is tested with.
//
// The reference model, [Model], is a second implementation, written from the language alone and as plainly as
// possible: after every event it looks at everything again, from scratch, until nothing changes. It is slow and
// knows no index, no queue and no cache. Where model and core disagree, one of them is wrong.
//
// Around it:
//
//   - [Pair] drives a core and the model side by side over a small store, [Kept], and compares them after every event.
//   - [Choices] turns random numbers, or the bytes of a fuzzer, into graphs ([RandomSpec]) and histories ([Play]).
//
// Other ways to hold the core against something have a package of their own: integration/coretest/enumerate plays every history of
// small graphs, and integration/coretest/script reads the rules of the language as texts.
//
// Nothing here starts a goroutine or looks at a clock. The package knows neither a database nor a process.
package coretest
