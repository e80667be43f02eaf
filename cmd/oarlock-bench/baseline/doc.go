// Package baseline is the limit that benchmarks are compared with: chains of steps driven with the same rows as a
// worker's, group-committed on one connection, and nothing around them: no graph, no gate, no logs, no controls.
// A body, if one is wanted, is a command with the system calls that no executor can do without.
// What it measures in the same run, on the same machine, is what an engine could reach if it cost nothing.
//
// A Loop uses one connection, and another one where it claims, and is for one goroutine. Its runs are of no use to anybody: use a database that is thrown away.
package baseline
