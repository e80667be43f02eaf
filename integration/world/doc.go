// Package world plays whole histories of the real worker: its claimer, its drivers, its slot queue and its lease. Several workers
// run over the store in memory, in a bubble of testing/synctest, where time passes as fast as there is something to do.
//
// A history begins with a storm of faults. Driver processes are killed, frozen and cut off. Whole hosts stand still for
// longer than a lease lasts. Replies are lost; writes are sent twice, land late, or land after their claim is gone.
// Meanwhile users cancel, pause, resume, retry, approve and mark. Then it is calm, and every run must end.
//
// One seed is one history. What happens to a call is drawn from the seed, the caller and the purpose of the call, not
// from the order in which goroutines run. Each call takes a time of its own, so that no two calls meet.
//
// The package simulates bodies, the guard and the network. Two parts check the history: the audit sees every write that
// the store accepts, in order, and the witness sees the start and end of every body. The names of invariants are those of
// docs/internals/promises.md.
package world
