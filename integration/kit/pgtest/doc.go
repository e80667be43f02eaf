// Package pgtest gives every test a database of its own, cloned from a migrated template.
//
// [New] returns a migrated database, [NewWithRoles] one whose roles have their grants, [Empty] an empty one; each is dropped
// when the test ends. Call them from as many parallel tests as you like. [DB.Login] and [DB.User] make logins that have
// nothing but such roles.
//
// One server serves a whole `go test ./...`: the first test process starts it, the others attach, and it ends a
// moment after the go command does, however that one ends. A test binary started by hand gets a server for itself.
// Its fsync is off: a test that needs durability starts its own with pglocal. With OARLOCK_TEST_DATABASE_URL set
// (a role that may create databases), that server is used instead; what killed test processes left there is dropped
// by the next one.
//
// [PgBouncer] starts the real pooler in front of a database, [Pooler] a stand-in, which also does what only newer versions do.
//
// What a database costs: 11 to 15 ms to clone where the server lives in memory (/dev/shm, when there is plenty and
// TMPDIR is not set), BenchmarkNew on two busy cores. Only ratios mean much: on ext4 it took 2 to 8 times as long, a
// migration from nothing 7 to 16 times as long as a clone beside it. The first one of a run also starts the server and
// builds the template: about two seconds.
package pgtest
