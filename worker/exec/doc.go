// Package exec runs the bodies `run:` and `command:`. Each attempt has a process group, an environment and an empty folder of its
// own, and nothing of it is left afterwards. `command:` runs without a shell.
//
// # What Execute does
//
// Execute starts the command, copies its two pipes into the task's Stdout and Stderr, waits, and returns how the command ended.
// Once ctx is done, the whole tree gets the signal of the step's kill, and SIGKILL after its grace. Once task.Now is closed, it
// gets SIGKILL at once. When the body ended by itself, processes that it left behind have a quarter of a second to end, too; then
// they get the signal, and SIGKILL after the grace or two seconds, whichever is shorter. With `leftovers: keep` they live until
// Close, and their further output is discarded. The log names the processes that were ended. A process that holds a pipe open
// never holds up the task: the content of the pipe is read, then the pipe is closed.
//
// The folder is empty at the start, belongs to one body, and is removed afterwards. If the body left it exactly as it was, it may
// serve another body.
//
// # What belongs to a body
//
// To a body belong the members of its process group, their descendants, and every process with this attempt's OARLOCK_BODY_ID in
// its environment, so that setsid and a double fork hide nothing. If Config.Cgroup names a writable cgroup v2, each attempt has a
// group, and all processes in it belong to the body.
//
// A process may have dropped its environment and its group, and have been orphaned before the first look at it: a stray. It is
// found by its attempt's cgroup, or else if Config.Adopts says that this process adopts orphans. Then it belongs to the last to end
// of the bodies that were there at the first look at it.
//
// The first process of a body is not reaped before its tree is gone. Until then neither its pid nor its group's number can pass
// to another process.
//
// # Limits
//
// Resources limit a body by its cgroup if that has the controllers, else by rlimits, which count per process (memory) or per user
// (pids).
//
// Executors are safe for concurrent use. The package does not know the database or the graph, logs nothing, and needs Linux with
// /proc.
package exec
