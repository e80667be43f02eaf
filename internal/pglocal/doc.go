// Package pglocal finds, starts and stops a private PostgreSQL server: for `oarlock dev` and `run`, for tests and
// for benchmarks.
//
// The caller's obligations: one [Start], one [Server.Stop]; a second Start of the same folder, from this or any
// other process, attaches to the server that runs there, and the last user to leave stops it.
//
// How a server ends with its users: every user holds the write end of a named pipe, the lifeline, that a small
// shell supervisor reads. The kernel closes it when a process dies, however it dies; at end of file the supervisor
// shuts the server down. Nothing else keeps count, so nothing can be miscounted. Server and supervisor live in a
// session of their own: Ctrl-C in the terminal reaches the user's process only.
//
// The folder:
//
//	state.json      marks the folder as ours; name, password and port of the server
//	lock            held while a server is started, joined or left
//	users           held (shared) by every user, so that one can tell whether it is the last
//	lifeline        the named pipe
//	data/           the data folder of PostgreSQL; only ever created, never deleted (but for a throw-away)
//	run/            unix socket, and the supervisor's mark that it is about to stop
//	server.log      what PostgreSQL said since the last start; server.log.1 the time before
//
// Started as root, the server and its supervisor run as user postgres, or nobody, because PostgreSQL refuses root.
// All functions may be called from several goroutines. The package knows nothing of schemas, queues or DAGs.
package pglocal
