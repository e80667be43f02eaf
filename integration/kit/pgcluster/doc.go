// Package pgcluster gives a test servers of its own, to be stopped, crashed, restarted, filled up, and promoted.
//
// [Start] makes a primary: a copy of a folder that one test of a `go test` fills by initdb and the migrations. [StartEmpty]
// makes a primary by initdb alone. [Node.Standby] makes a copy that follows its primary, [Node.Restore] a recovered copy that does not.
//
// A node keeps its data and its port across restarts. If another process has taken the port meanwhile, the test fails,
// because clients that know the address would not find the node again. All servers end with the test. If the test process
// is killed, its servers end with it.
//
// Most tests should use integration/kit/pgtest, which costs a fraction of this. A Node belongs to one test and one
// goroutine.
package pgcluster
