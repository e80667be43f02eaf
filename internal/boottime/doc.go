// Package boottime measures the time since boot, sleep included. Go's own monotonic clock stands still while a machine is
// suspended, so a lease counted by it would outlive the lease in the database.
//
// All functions are safe for concurrent use. The package knows no leases.
package boottime
