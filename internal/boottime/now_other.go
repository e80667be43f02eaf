//go:build !linux

package boottime

import "time"

var start = time.Now()

// Now is the time since the program started. It never goes back and no clock change moves it; a suspended machine may
// stop it.
func Now() time.Duration { return time.Since(start) }

// ID names the boot that Now counts from; "" where nobody knows.
func ID() string { return "" }
