// Package pgtest gives every test a database of its own, cloned from a migrated template.
//
// [New] returns a migrated database, [NewWithRoles] a database with grants to Oarlock's roles, [Empty] an empty one. Each
// is dropped when the test ends. Call these functions from any number of parallel tests. [DB.Login] and [DB.User] make
// logins that have only such roles.
//
// One server serves a whole `go test ./...`. The first test process starts it, and the others attach. It ends a moment
// after the go command ends, for any reason. A test binary started by hand gets a server for itself. The server's fsync
// is off: a test that needs durability starts its own with pglocal. With OARLOCK_TEST_DATABASE_URL set to a role that may
// create databases, that server is used instead. If killed test processes left databases there, the next test process
// drops them.
//
// [PgBouncer] starts the real pooler in front of a database. [Pooler] starts a stand-in, which can also do what only
// newer versions do.
//
// A database costs 11 to 15 ms to clone if the server is in memory (in /dev/shm, if there is plenty and TMPDIR is not
// set), by BenchmarkNew on two busy cores. Only ratios are reliable: on ext4 a clone took 2 to 8 times as long, and a
// migration from nothing took 7 to 16 times as long as a clone on the same disk. The first test of a run also starts the
// server and builds the template, which takes about two seconds.
package pgtest
