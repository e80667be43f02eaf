// Package baseline is the limit that benchmarks are compared with. It drives chains of steps with the same rows as a
// worker, group-committed on one connection. It has nothing around them: no graph, no slots, no logs, no controls. A body,
// if one is wanted, is a command with the system calls that every executor needs. Measured in the same run and on the same
// machine, it shows what an engine could reach if it cost nothing.
//
// A Loop uses one connection, and another one if it claims. It belongs to one goroutine. Its runs are of no use afterwards,
// so use a database that is thrown away.
package baseline
