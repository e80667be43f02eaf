// Package boottime tells the time since boot, sleep included. Go's own monotonic clock stands still while a machine is
// suspended, so a lease counted by it would outlive the one in the database.
//
// Safe for concurrent use. The package knows no leases.
package boottime
