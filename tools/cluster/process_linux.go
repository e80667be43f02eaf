package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// attributes have a worker be told to stop when the keeper dies.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// children are the processes whose parent is another one.
func children(parent int) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	mark := fmt.Appendf(nil, "\nPPid:\t%d\n", parent)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err == nil && bytes.Contains(status, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}
