// Package pgcluster gives a test servers of its own, to be stopped, crashed, restarted, filled up, and promoted.
//
// [Start] makes a primary: a copy of a folder that one test of a `go test` fills by initdb and the migrations. [StartEmpty]
// makes one by initdb, [Node.Standby] a copy that follows, [Node.Restore] one that does not, by recovery.
//
// A node keeps its data and its port across restarts:
// one whose port somebody else has taken meanwhile fails its test, since who knows its address would not find it again.
// Everything ends with the test; when the test process is killed, its servers end with it.
//
// Most tests want integration/kit/pgtest, which costs a fraction of this. A Node belongs to one test and one goroutine.
package pgcluster
