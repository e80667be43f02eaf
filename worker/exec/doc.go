// Package exec runs the bodies `run:` and `command:`: one process group per attempt, argv without a shell, its own
// environment, its own empty folder, and nothing left of it afterwards.
//
// # What Execute does
//
// It starts the command, copies its two pipes into the task's Stdout and Stderr, waits, and returns how it ended. Once ctx
// is done the whole tree gets the signal of the step's kill, after its grace SIGKILL; once task.Now is closed, SIGKILL at
// once. What a body that ended by itself left behind has a quarter of a second to end too, then gets the signal, and SIGKILL
// after the grace or two seconds (`leftovers: keep` leaves it to Close, and what it still writes is thrown away). The log
// says what was ended. A process that holds a pipe open never holds up the task: what is in the pipe is
// read, then the pipe is closed.
//
// The folder is empty, the body's own, and gone afterwards; one that its body left exactly as it was may serve another body.
//
// # What belongs to a body
//
// The members of its process group, their descendants, and every process that carries OARLOCK_BODY_ID of this attempt in
// its environment, so setsid and a double fork hide nothing. A process that dropped its environment *and* was orphaned
// before anybody looked is only found where Config.Cgroup names a writable cgroup v2: there each attempt has a group, which
// nothing leaves by accident. Whoever must be sure without one puts a subreaper above this process (package supervise).
//
// The first process of a body is not reaped before its tree is gone: until then neither its pid nor its group's number can
// be anybody else's.
//
// # Limits
//
// Resources bound a body by its cgroup where the controllers are there, else by rlimits, which count per process (memory)
// or per user (pids).
//
// Executors are safe for concurrent use. The package knows no database and no graph, logs nothing, and needs Linux with
// /proc.
package exec
