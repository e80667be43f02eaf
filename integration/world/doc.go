// Package world plays whole histories of the real worker: its claimer, its drivers, its gate and its lease, several workers
// of it, over the store in memory, in a bubble of testing/synctest where time passes as fast as there is something to do.
//
// A history has a phase in which everything goes wrong: driver processes are killed, frozen and cut off, whole hosts stand
// still for longer than a lease lasts, replies are lost, writes are sent twice, land late, or land after the claim they were
// for is gone. People cancel, pause, resume, retry, approve and mark meanwhile. Then it is calm, and every run must end.
//
// One seed is one history. What happens to a call is drawn from the seed, from who calls and for what, not from the order
// in which goroutines come by; and each call takes a time of its own, so that no two of them meet.
//
// What it plays itself: bodies, the guard, the network, people. What checks: the audit sees every write that the store
// takes, in order, and the witness every body's start and end. The names of invariants are those of docs/internals/promises.md.
package world
