//go:build !linux

package boottime

import "time"

var start = time.Now()

// Now returns the time since the program started. It never goes back, and changes of the system clock do not affect it. It
// may stand still while the machine is suspended.
func Now() time.Duration { return time.Since(start) }

// ID returns "": the start of the program has no identifier.
func ID() string { return "" }
