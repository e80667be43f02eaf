// Package queue owns runs in Postgres: what asks for them, who drives them, what became of them, and their logs. It is
// the only package that knows where runs live.
//
// # Two sides
//
// A Store is for whoever asks, steers and looks: Enqueue and its like, Control, Get, List, Watch, logs. It needs a
// role that may do what is asked of it, and uses a small pool.
//
// A Session is a worker's side: Store.Register makes one. It claims runs (Poll), looks after what others left (Look, DoChores,
// Sweep), reads what a former drive left (Load), writes what a drive decided (Commit), and proves that the worker is
// alive (Renew). Everything it writes carries the id of a claim and takes a fence of its worker, so that a driver that
// lost its run can change nothing more.
//
// # What a worker owes
//
//   - Renew every few seconds, well within a third of its TTL, and heed Deadline: what runs must be dead before the
//     hard one.
//   - Look each LookInterval and Sweep each SweepInterval, also when it wants nothing: they look after other workers'
//     runs, too. DoChores after each Look. Poll when there is room, and where a look says that something is due.
//   - One Commit per claim at a time. After ErrLeaseLost, or once Claim.Lost is closed: kill what the run has under way,
//     write nothing more about it, and call Claim.Leave when nothing of it is left.
//   - Actions of a batch only after its Commit returned nil.
//
// A Store, a Session and all their methods are safe for concurrent use. Both own goroutines and connections until Close.
//
// The package knows no processes, slots or HTTP, and decides nothing about a run: that is package dagrun.
package queue
