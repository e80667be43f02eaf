package main

import (
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
func familyTime(pid int) (sum time.Duration, err error) {
	_, sum, err = procTime(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		if parent, took, err := procTime(path); err == nil && parent == pid { // those that are gone by now count as its own
			sum += took
		}
	}
	return sum, err
}

// procTime reads a stat file: who the parent is, and the time of the process and of those of its children it waited for.
func procTime(path string) (parent int, took time.Duration, err error) {
	text, err := os.ReadFile(path) //nolint:gosec // of the kernel
	if err != nil {
		return 0, 0, err
	}
	const parentAt, timesAt, times = 1, 11, 4 // after the name, which may hold anything
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	if len(fields) < timesAt+times {
		return 0, 0, fmt.Errorf("%s: %d fields", path, len(fields))
	}
	ticks := 0
	for _, field := range fields[timesAt : timesAt+times] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", path, err)
		}
		ticks += n
	}
	parent, err = strconv.Atoi(fields[parentAt])
	return parent, time.Duration(ticks) * kernelTick, err
}
