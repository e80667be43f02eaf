// Package mutant proves that tests can fail: it plants one fault after the other and wants each to be noticed.
//
// The faults are in two lists: testdata/core.txt for package dagrun, and testdata/system.txt for all around it, SQL
// included. Each is a paragraph:
//
//	lost attempt uses the retry budget
//	What nobody is to blame for is counted as a failure of the task.
//	bodyend.go
//	? ../integration/coretest/script -run=TestScripts/lost_retry
//	- r.closeAttempt(t, TaskFailed, res)
//	- 	r.again(t)
//	+ r.closeAttempt(t, TaskFailed, res)
//	+ 	t.Retries++
//	+ 	r.again(t)
//
// that is a name, a sentence for the reader, a file, who must notice (?, arguments of go test: a line for each, asked in
// turn; without any, the suites of the list), and what stands there once (-) with what takes its place (+; without any it is
// left out). White space before the first line of either does not count.
//
// A fault is planted with `go test -overlay`, which reaches embedded SQL too: no file of the product is touched, and none
// of it knows of faults. Suites are asked one after the other until one is red; those of the system as often as rounds
// says, since some of them need luck. A mutant that does not compile is a mistake in the list, not a catch, and one that
// everybody lets through means that a test is missing.
//
// The tests check that the lists fit the code; with -mutants they also plant everything and print who noticed, which
// takes a while: make mutants. They start the go command, and nothing else.
package mutant
