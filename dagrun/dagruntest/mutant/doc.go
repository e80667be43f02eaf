// Package mutant proves that the tests of the core, package dagrun, can fail: it plants one fault after the other and
// wants each to be noticed.
//
// The faults are in testdata/mutants.txt, one paragraph each:
//
//	lost attempt uses the retry budget
//	What nobody is to blame for is counted as a failure of the task.
//	bodyend.go
//	- r.closeAttempt(t, TaskFailed, res)
//	- 	r.again(t)
//	+ r.closeAttempt(t, TaskFailed, res)
//	+ 	t.Retries++
//	+ 	r.again(t)
//
// that is a name, a sentence for the reader, a file of the core, and what stands there once (-) with what takes its place
// (+; without any it is left out). White space before the first line of either does not count.
//
// A fault is planted with `go test -overlay`: no file of the core is touched. The suites are asked one after the other,
// quick ones first, until one is red. A mutant that does not compile is a mistake in the list, not a catch, and one that
// every suite lets through means that a test is missing.
//
// The tests check that the list fits the code; with -mutants they also plant everything and print who noticed, which
// takes minutes: make mutants. They start the go command, and nothing else.
package mutant
