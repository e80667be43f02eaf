//go:build !linux

package pglink

import "syscall"

// setUserTimeout does nothing, because this system has no TCP_USER_TIMEOUT. Keepalive probes detect a dead peer instead.
func setUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
