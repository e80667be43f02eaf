// Package doctor examines a database: can Oarlock work with it, safely, and what should be changed.
//
// Run connects and goes through small named checks. Each says ok, warn, fail or skip, what it saw, and what to do.
// Nothing is changed: the one check that writes rolls back, and what a check opens it closes. Behind a pooler that hands
// connections from client to client no session state is left behind.
//
// The caller bounds the whole by its context; each check has a bound of its own too, so one that hangs fails alone.
// Names of checks and their order are a contract for scripts: checks may be added, never renamed.
package doctor
