package procfs

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

const (
	statBytes    = 2 << 10    // 64 of the name, and 52 numbers
	kernelThread = 0x00200000 // PF_KTHREAD
)

// Tick is the unit of processor times in /proc, whatever the frequency of the kernel's timer.
const Tick = 10 * time.Millisecond

// Fields of /proc/PID/stat, counted from the state, which comes after the name.
const (
	fieldState          = 0
	fieldParent         = 1
	fieldGroup          = 2
	fieldFlags          = 6
	fieldUser           = 11
	fieldSystem         = 12
	fieldChildrenUser   = 13
	fieldChildrenSystem = 14
	fieldThreads        = 17
	fieldStart          = 19
	fieldEnvironEnd     = 48
	fieldsNeeded        = fieldEnvironEnd + 1
)

// Stat is the part of /proc/PID/stat that we use.
type Stat struct {
	PID    int
	Parent int // 0: none, or outside of this PID namespace
	Group  int
	Start  uint64 // clock ticks since boot; with the pid it identifies a process of this boot
	Name   string // for messages; a process may choose its own name
	State  byte

	Live   bool // false for a zombie; a process of which only the first thread has ended is alive
	Kernel bool // a thread of the kernel
	Bare   bool // no environment is shown: it is about to execute a program, or this user may not trace it

	Used         time.Duration // processor time of the process
	ChildrenUsed time.Duration // processor time of the children that it waited for
}

// ReadStat reads the stat line of a process. It returns ErrGone if the process is gone.
func ReadStat(pid int) (Stat, error) {
	var buf [statBytes]byte
	n, err := ReadInto(Path(pid, "stat"), buf[:])
	if err != nil {
		return Stat{}, gone(err)
	}
	stat, ok := ParseStat(buf[:n])
	if !ok {
		return Stat{}, fmt.Errorf("%s is not understood: %q", Path(pid, "stat"), string(buf[:n]))
	}
	return stat, nil
}

// ParseStat parses a line of /proc/PID/stat. It returns false for any other text. The name of the process may contain any
// character, spaces and parentheses included.
func ParseStat(line []byte) (Stat, bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return Stat{}, false
	}
	var field [fieldsNeeded]int64
	state, rest := byte(0), bytes.TrimSpace(line[end+1:])
	for at := range field {
		var text []byte // not ranged over by bytes.FieldsSeq, which would move the line from the stack of ReadStat to the heap
		if text, rest, _ = bytes.Cut(rest, []byte{' '}); len(text) == 0 {
			return Stat{}, false
		}
		switch at {
		case fieldState:
			state = text[0]
		case fieldEnvironEnd: // an address, which may be larger than an int64
			field[at] = int64(len(bytes.TrimLeft(text, "0")))
		case fieldParent, fieldGroup, fieldFlags, fieldUser, fieldSystem, fieldChildrenUser, fieldChildrenSystem, fieldThreads, fieldStart:
			n, err := strconv.ParseInt(string(text), 10, 64)
			if err != nil {
				return Stat{}, false
			}
			field[at] = n
		}
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	ended := (state == 'Z' || state == 'X') && field[fieldThreads] <= 1
	return Stat{
		PID: pid, Parent: int(field[fieldParent]), Group: int(field[fieldGroup]), Start: uint64(field[fieldStart]),
		Name: string(line[open+1 : end]), State: state,
		Live: !ended, Kernel: field[fieldFlags]&kernelThread != 0, Bare: field[fieldEnvironEnd] == 0,
		Used:         time.Duration(field[fieldUser]+field[fieldSystem]) * Tick,
		ChildrenUsed: time.Duration(field[fieldChildrenUser]+field[fieldChildrenSystem]) * Tick,
	}, err == nil
}
