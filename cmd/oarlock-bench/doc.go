// Command oarlock-bench measures what Oarlock costs, always beside something that does the same work in the same run: a
// bare loop with the same rows or system calls and no engine, and River doing it as well as it can.
//
//	oarlock-bench [--rounds 5] [--out DIR] [CASE ...]    measure, all cases if none is named
//	oarlock-bench report DIR                             what DIR holds, as a table, and as DIR/report.html
//	oarlock-bench --quick [--keep]                       a few minutes: ratios against the committed ones, or keep them
//
// A case has sides, each with a database of its own on one private server that is durable (fsync and synchronous_commit
// on). Sides take turns, round by round, so that what else the machine does meets all of them; a ratio is taken in each
// round, and the median of ratios is what counts. A figure is never compared with one of another run.
//
// With --out each case leaves a file when it is done, and is skipped when it has one: a run that was interrupted goes on
// where it stopped.
//
// It is for people who work on Oarlock. It knows nothing of tests, and nothing that it makes is left behind but DIR.
package main
