// Package pglocal finds, starts and stops a private PostgreSQL server: for `oarlock dev` and `run`, for tests and
// for benchmarks.
//
// The caller calls [Server.Stop] once for each [Start]. A second Start of the same folder, from this or any other process,
// attaches to the server that runs there. The last user to leave stops the server.
//
// A server ends with its users, also when they are killed. Every user holds the write end of a named pipe, the lifeline, and
// a small shell supervisor reads the other end. The kernel closes the write end when a process dies, for whatever reason. At
// end of file the supervisor shuts the server down. There is no other count of users that could be wrong. Server and
// supervisor run in a session of their own, so Ctrl-C in the terminal reaches only the user's process.
//
// The folder:
//
//	state.json      marks the folder as Oarlock's; name, password and port of the server
//	lock            held while a user starts, joins or leaves the server
//	users           held (shared) by every user, so that a user can tell whether it is the last
//	lifeline        the named pipe
//	data/           the data folder of PostgreSQL; only ever created, never deleted (except for a throw-away server)
//	run/            unix socket, and the supervisor's mark that it is about to stop
//	server.log      PostgreSQL's output since the last start; server.log.1 the time before
//
// If root starts the server, the server and its supervisor run as the user postgres, or as the system's unprivileged user,
// because PostgreSQL refuses root. All functions may be called from several goroutines. The package knows nothing of
// schemas, queues or DAGs.
package pglocal
