//go:build !linux

package procfs

import (
	"errors"
	"fmt"
)

// Walk fails: only Linux lists processes in /proc.
func Walk(func(pid int, inode uint64)) error {
	return fmt.Errorf("list processes: %w", errors.ErrUnsupported)
}
