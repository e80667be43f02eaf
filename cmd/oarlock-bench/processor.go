package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kernelTick is the unit in which Linux tells a process's time, whatever its timer does.
const kernelTick = 10 * time.Millisecond

// Names of processor time per unit of work. Unlike the clock it hardly minds what else the machine is doing.
const (
	serverMicros  = "µs of the server per unit"
	processMicros = "µs of this process per unit"
)

// processorTime is what the server and this process have used so far; false where the kernel does not tell.
type processorTime struct{ server, process time.Duration }

func (l *Lab) processorTime() (t processorTime, known bool) {
	server, err := familyTime(l.server.PID())
	var own syscall.Rusage
	if err != nil || syscall.Getrusage(syscall.RUSAGE_SELF, &own) != nil {
		return t, false
	}
	return processorTime{server, time.Duration(own.Utime.Nano() + own.Stime.Nano())}, true
}

func (t processorTime) since(before processorTime, units float64) Values {
	if units == 0 {
		return nil
	}
	return Values{
		serverMicros:  float64((t.server - before.server).Microseconds()) / units,
		processMicros: float64((t.process - before.process).Microseconds()) / units,
	}
}

// familyTime is that of a process and its children, those included that are gone.
func familyTime(pid int) (time.Duration, error) {
	stat, err := procStatOf(pid)
	sum := stat.own + stat.waited
	for _, child := range childrenOf(pid) { // those that are gone by now count as its own
		stat, _ := procStatOf(child)
		sum += stat.own + stat.waited
	}
	return sum, err
}

// childrenOf are the processes that a process started or adopted, whichever of its threads did: the kernel's list of children
// is one per thread.
func childrenOf(pid int) (children []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range all {
		other, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if stat, err := procStatOf(other); err == nil && stat.parent == pid {
			children = append(children, other)
		}
	}
	return children
}

var errNotHere = errors.New("this system does not tell")

// procStat is what the kernel tells of a process.
type procStat struct {
	parent int
	own    time.Duration // of processor
	waited time.Duration // of those of its children that it waited for
}

func procStatOf(pid int) (stat procStat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) //nolint:gosec // a number
	if err != nil {
		return stat, errors.Join(errNotHere, err)
	}
	const parentAt, ownAt, waitedAt, end = 1, 11, 13, 15 // after the name, which may hold anything
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < end {
		return stat, fmt.Errorf("process %d: %w: %d fields", pid, errNotHere, len(fields))
	}
	stat.own, stat.waited = ticks(fields[ownAt:waitedAt]), ticks(fields[waitedAt:end])
	stat.parent, err = strconv.Atoi(fields[parentAt])
	return stat, err
}

func ticks(fields []string) (sum time.Duration) {
	for _, field := range fields {
		n, _ := strconv.Atoi(field)
		sum += time.Duration(n) * kernelTick
	}
	return sum
}
