// Package queue owns runs in Postgres: requests for runs, claims of runs, their outcomes and their logs. It is the only package
// that knows how runs are stored.
//
// # Two sides
//
// A Store is for programs that request, steer and read runs: Enqueue and similar methods, Control, Get, List, Watch, logs. Its
// login needs a database role that may do what is asked, and it uses a small pool.
//
// A Session is for a worker: Store.Register makes one. It claims runs (Poll), mends what other workers left behind (Look,
// DoChores, Sweep), reads what earlier drives of a run left (Load), writes what a drive decided (Commit), and proves that the
// worker is alive (Renew). Every write carries the id of a claim and locks a fence of its worker, so that a driver that lost its
// run can change nothing more.
//
// # What a worker must do
//
//   - Renew every few seconds, well within a third of its TTL, and heed Deadline: everything it runs must be dead before the
//     hard deadline.
//   - Look at each LookInterval and Sweep at each SweepInterval, even if it wants no runs: both also serve the runs of other
//     workers. DoChores after each Look. Poll when there is room for a run and a look says that one is due.
//   - Make one Commit per claim at a time. After ErrLeaseLost, or once Claim.Lost is closed: kill everything of the run, write
//     nothing more about it, and call Claim.Leave when nothing of it is left.
//   - Perform the actions of a batch only after its Commit returned nil.
//
// A Store, a Session and all their methods are safe for concurrent use. Both own goroutines and connections until Close.
//
// The package knows no processes, slots or HTTP. What a run does next is decided by package dagrun.
package queue
