// Package doctor examines a database: whether Oarlock can work with it safely, and what to change if not.
//
// Run connects and makes small named checks. Each check reports ok, warn, fail or skip, what it saw, and what to do. Checks
// change nothing: the one check that writes rolls back, and each check closes what it opens. Behind a pooler, which lends
// one server connection to many clients, they leave no session state behind.
//
// The caller bounds the whole examination by its context. Each check has a timeout of its own too, so a check that hangs
// fails alone. The names of checks and their order are a contract for scripts: checks may be added, never renamed.
package doctor
