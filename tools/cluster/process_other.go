//go:build !linux

package main

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// children are the processes whose parent is another one.
func children(parent int) (pids []int) {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(parent)).Output()
	for _, word := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
