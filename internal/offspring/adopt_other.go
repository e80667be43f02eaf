//go:build !linux

package offspring

import (
	"errors"
	"fmt"
)

// Adopt fails: only Linux has child subreapers that this package knows.
func Adopt() (release func(), err error) {
	return nil, fmt.Errorf("become a child subreaper: %w", errors.ErrUnsupported)
}

// Reap returns false, because this process adopts none.
func Reap(int) bool { return false }

func look() {}
