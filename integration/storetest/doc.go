// Package storetest holds what a store of runs must do, whatever it is made of.
//
//   - The roles that callers see of a store and of a session, as small interfaces: Client, Claimer, Journal and so on.
//     *queue.Store and *queue.Session fill them.
//   - Memory, a store with the same rules and no database: deterministic given its clock, and fast.
//   - Run, the contract suite. Memory and the store in Postgres pass the same one.
//   - Faulty, which has calls fail before or after they were applied, happen twice, or wait, by a script or a seed.
//   - Drive, a driver with bodies that end at once, for the suite, simulators and benchmarks.
//
// # What a caller owes
//
// A Harness says how to make a store, and how to let time pass. A suite that runs on a real clock polls with a deadline,
// so TTLs and timers in it are short.
//
// Memory, its sessions and Faulty are safe for concurrent use. Drive owns the claim it is given until it returns.
//
// The package never knows a database: what looks at tables is sql/invariants, and pgtest runs it.
package storetest
