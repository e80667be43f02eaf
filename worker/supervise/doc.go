// Package supervise is the small parent of a worker's driver process. It outlives a driver process that is frozen or killed,
// kills everything that one started, makes sure that nothing is left, and only then starts a successor, which may
// replace the worker ids of its predecessor at once.
//
//	oarlock worker                        supervise.Run: one goroutine, no database, no other children
//	└── oarlock worker (driver process)   supervise.Attach: claims runs, says how long its lease lasts
//	    └── tasks, and what they start    never hold a descriptor of the guard's
//
// Three things end a driver process and all it started: its end, its deadline (CLOCK_BOOTTIME, so that a suspended
// machine does not stop it), and a third request to stop. The guard is a child subreaper, so what a task daemonised comes
// back to it, and nothing is left exactly when it has no child any more. Where cgroup v2 is writable, everything below is
// in a cgroup as well.
//
// A lock file per worker name lists the boot, the PID namespace, the cgroup and the worker ids in use. Its descriptor is
// held by guard and driver process, so whoever gets the lock knows that both are gone. It then kills what carries one of
// those ids in its environment, waits until nothing does, and replaces exactly these ids.
//
// What callers owe: Run has the whole process; it reaps every child of it, and installs handlers for signals. Attach
// comes before anything that starts a process. Tasks carry Environ(id) of the worker id they run under. An id goes through
// Link.Use before a row of the database shows it.
//
// Containment says what is certain. "cgroup" and "subreaper": nothing outlives the driver process. "group" (systems other
// than Linux): only the driver process itself is killed, and nobody is replaced: the lease in the database decides. "none":
// there is no guard, as in a worker that is embedded in another program; a nil *Link stands for that and does nothing.
//
// Children that the process had before Run (exec from a shell that started some) are left alone; what they orphan later is
// taken for a task's. As PID 1 of a container the guard reaps and owns whatever is orphaned there.
//
// What no guard can see: processes that others start on behalf of a task (a container engine, at, systemd-run); and, when
// guard and driver process were killed at once and there was no cgroup, orphans that cleared their environment or changed
// their user.
//
// The package knows no database, no graph and no other package of ours but the clock.
package supervise
