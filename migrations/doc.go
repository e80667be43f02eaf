// Package migrations owns the schema history of Oarlock: the schema oarlock with its tables and public SQL API, and
// River's tables in a schema of their own, oarlock_river.
//
// Up, Down and Roles take one lock per database, so that any number of them may be started at once: one works, the
// others wait, with a bound and a message that names the holder. Every step is one transaction that also records
// itself, so a caller repeats a call that was killed. Status, Version and Check only read, take no lock, and work
// on a standby.
//
// Callers check a database with Check before they use it: a binary works with a range of schema versions, MinVersion
// to MaxVersion, and refuses any other with a *VersionError that names the command to run.
//
// All functions are safe for concurrent use, across processes too. The package knows nothing about what the
// statements of the running system do; it holds DDL, grants and the SQL API.
package migrations
