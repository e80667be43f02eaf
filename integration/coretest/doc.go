// Package coretest provides the tools that test the core, package dagrun.
//
// The reference model, [Model], is a second implementation. It is written from the language alone and is as plain as
// possible: after every event it examines all tasks from scratch, again and again, until nothing changes. It is slow and
// has no index, no queue and no cache. If model and core disagree, one of them is wrong.
//
// Around it:
//
//   - [Pair] drives a core and the model side by side over a small store, [Kept], and compares them after every event.
//   - [Choices] turns random numbers, or the bytes of a fuzzer, into graphs ([RandomSpec]) and histories ([Play]).
//
// Other ways to check the core have packages of their own: integration/coretest/enumerate plays every history of small
// graphs, and integration/coretest/script reads the rules of the language as texts.
//
// The package starts no goroutine and reads no clock. It knows neither a database nor a process.
package coretest
