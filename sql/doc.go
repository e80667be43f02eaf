// Package sql holds every statement Oarlock sends, one per .sql file, embedded and reached by name.
//
// A file lives in the folder of the package that sends it: sql/doctor/version.sql is Named("doctor/version").
// It starts with a header of "-- " lines with its Purpose, the Index it uses and the Locks it takes in order;
// then comes exactly one statement, without a semicolon or with one at the end:
//
//	-- Purpose: the newest schema version that is applied
//	-- Index: schema_history_pkey, backwards
//	-- Locks: none
//	SELECT max(version) FROM oarlock.schema_history
//
// Named returns the statement behind a short comment with its name, so that pg_stat_activity shows where a statement comes
// from. Callers keep statements in package variables: a name that does not exist then stops the program at start,
// not in the middle of a run.
//
//	var serverVersion = sql.Named("doctor/version")
//
// A statement has parts if most executions need only some of it. Callers then leave the other parts out by Without.
//
// The package knows no business rules, opens no connection, and is safe for concurrent use.
package sql
