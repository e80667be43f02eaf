// Package procfs reads /proc: the list of processes, and the stat line, environment, arguments, children and open files of one
// process.
//
// A process may end at any moment. Functions then return ErrGone, or leave the process out of a list. Because the kernel reuses
// pids, callers compare the inode of the process's folder or the start time before they trust a pid again.
//
// All functions are safe for concurrent use. The package knows no workers and no bodies, and sends no signals.
package procfs
