// Package pglink is how Oarlock talks to Postgres: it opens connections and pools by libpq's rules with the timeouts
// the driver leaves out, tells what an error means for the statement that got it, and carries a write through a lost
// reply.
//
// Callers set a deadline on every call, log what Redact has been over, and send every write that must not happen twice
// through Do. Nothing here trusts the driver's SafeToRetry: a connection that dies after a statement without arguments,
// COMMIT above all, reports "conn closed, safe to retry" although the row is committed.
//
// A pooler may stand between. What this process has found out of one is kept for it, by where the connection leads: whether it
// refuses parameters at the start, and how it lends. See Dial.
//
// Connections belong to one goroutine at a time, pools to all; every function is safe for concurrent use. The package
// knows no tables and no business rules.
package pglink
