package boottime

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time since boot. It never goes back, and changes of the system clock do not affect it.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("boottime: CLOCK_BOOTTIME is part of every Linux we run on: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// ID returns an identifier of the boot that Now counts from. It returns "" if the kernel does not show one.
func ID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
