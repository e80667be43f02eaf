// Package supervise is the small parent process of a worker's driver process, the guard. It outlives a driver process that is
// frozen or killed, kills everything that process started, and makes sure that nothing is left. Only then it starts a successor,
// which may replace the worker ids of its predecessor at once.
//
//	oarlock worker                        supervise.Run: one goroutine, no database, no other children
//	└── oarlock worker (driver process)   supervise.Attach: claims runs, tells the guard how long its lease lasts
//	    └── tasks, and their descendants  never hold a descriptor of the guard
//
// Three things end a driver process with all its descendants: its own end, its deadline (on CLOCK_BOOTTIME, which goes on while
// the machine is suspended), and a third request to stop. The guard is a child subreaper, so orphaned descendants become its
// children, and nothing is left exactly when it has no child any more. The driver process is one, too, from Link.Adopt on: orphans
// stay below it while it lives, so that it finds them after the guard has died. Where cgroup v2 is writable, all processes below
// the guard are in a cgroup as well.
//
// A lock file per worker name lists the boot, the PID namespace, the cgroup and the worker ids in use. Guard and driver process
// both hold its descriptor, so a guard that gets the lock knows that both are gone. It then kills the processes that carry one of
// those ids in their environment, waits until none is left, and replaces exactly these ids.
//
// Duties of callers: Run has the process to itself, since it reaps every child of the process and installs handlers for signals.
// Attach comes before anything that starts a process. Tasks carry Environ(id) of the worker id they run under. An id goes through
// Link.Use before a row of the database shows it.
//
// Containment names the guarantee. "cgroup" and "subreaper": nothing outlives the driver process. "group" (systems other than
// Linux): only the driver process itself is killed, and no worker id is replaced, so the lease in the database decides. "none":
// there is no guard, as in a worker that is embedded in another program; the *Link is nil, and its methods do nothing.
//
// Children that the process had before Run (a shell may start some and then exec) are left alone, but orphans of those children
// are taken for a task's. As PID 1 of a container the guard reaps and owns every orphan there.
//
// A guard cannot see processes that others start on behalf of a task (a container engine, at, systemd-run). If guard and driver
// process were killed at once and there was no cgroup, it cannot find orphans that cleared their environment or changed their
// user.
//
// The package does not know the database or the graph, and imports no package of ours that does.
package supervise
