// Package pglink connects Oarlock to Postgres. It opens connections and pools by libpq's rules, with timeouts that the
// driver lacks. It classifies the errors of statements, and it repeats a write safely after a lost reply.
//
// Callers set a deadline on every call, log only text that went through Redact, and send every write that must not happen
// twice through Do. Nothing here trusts the driver's SafeToRetry: a connection that dies after a statement without
// arguments, above all after COMMIT, reports "conn closed, safe to retry" although the row is committed.
//
// A pooler may stand between Oarlock and Postgres. The process remembers, for each database that it connects to, whether the
// pooler refuses parameters at the start of a connection, and in which mode the pooler lends connections. See Dial.
//
// A connection belongs to one goroutine at a time. A pool, and every function of this package, is safe for concurrent use.
// The package knows no tables and no business rules.
package pglink
