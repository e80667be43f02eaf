//go:build !linux

package pglink

import "syscall"

// setUserTimeout does nothing where there is no TCP_USER_TIMEOUT: keepalive probes remain.
func setUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
