// Package mutant proves that tests can fail: it plants one fault after the other, and a suite must notice each.
//
// The faults are in two lists: testdata/core.txt for package dagrun, and testdata/system.txt for everything around it,
// SQL included. Each fault is a paragraph:
//
//	lost attempt uses the retry budget
//	An attempt that was lost with its worker is counted as a failure of the task.
//	bodyend.go
//	? ../integration/coretest/script -run=TestScripts/lost_retry
//	- r.closeAttempt(t, TaskFailed, res)
//	- 	r.again(t)
//	+ r.closeAttempt(t, TaskFailed, res)
//	+ 	t.Retries++
//	+ 	r.again(t)
//
// The lines are: a name, a sentence for the reader, a file, the suites that must notice the fault, and the change. Each
// line with ? holds the arguments of go test for one suite. They run in turn; without any, the suites of the list run.
// The text of the lines with - stands in the file once, and the text of the lines with + replaces it, or nothing does.
// White space before the first line of either text does not count.
//
// A fault is planted with `go test -overlay`, which also reaches embedded SQL. So no file of the product is touched, and
// none knows of faults. Suites run one after the other until one fails. Suites of the system run up to rounds times,
// since some of them need luck. A mutant that does not compile is a mistake in the list, not a catch. A mutant that
// passes all suites means that a test is missing.
//
// The tests check that the lists fit the code. With -mutants they also plant every fault and print the suite that noticed
// it, which takes a while: make mutants. They start the go command, and nothing else.
package mutant
