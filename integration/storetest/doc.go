// Package storetest tests what every store of runs must do, in Postgres or in memory.
//
//   - The roles of a store and of a session, as small interfaces: Client, Claimer, Journal and so on. *queue.Store and
//     *queue.Session implement them.
//   - Memory, a fast store with the same rules and no database. With a given clock it is deterministic.
//   - Run, the contract suite. Memory and the store in Postgres pass the same one.
//   - Faults, which makes calls fail before or after they are applied, happen twice, or wait, by a script or a seed.
//   - Drive, a driver with bodies that end at once, for the suite, simulators and benchmarks.
//
// # What a caller must provide
//
// A Harness makes a store, and lets time pass. A suite on a real clock polls with a deadline, so its TTLs and timers are
// short.
//
// Memory, its sessions and Faults are safe for concurrent use. Drive owns its claim until it returns.
//
// The package knows no database: pgtest runs the statements of sql/invariants, which check the tables.
package storetest
