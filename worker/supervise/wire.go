package supervise

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

const (
	// marker tells a driver process that it has a guard: descriptors and what they are, as "3:INODE 4:INODE 5:INODE".
	marker = "OARLOCK_GUARD"

	fromGuardFD, toGuardFD, lockFD = 3, 4, 5 // in the driver process

	lineBytes   = 64 << 10        // longest message
	writeWithin = 2 * time.Second // a pipe that takes nothing for so long has no reader any more
	maxWorkers  = 256             // ids in the lock file; past that the oldest go, and their leases decide
)

// request goes from the driver process to the guard, one JSON line each.
type request struct {
	N        int            `json:"n,omitempty"` // answered under this number; 0 wants no answer
	Attached bool           `json:"attached,omitempty"`
	Extend   *time.Duration `json:"extend,omitempty"` // time since boot
	Use      string         `json:"use,omitempty"`
	Forget   []string       `json:"forget,omitempty"`

	Keep map[string]int64 `json:"keep,omitempty"` // counts for its successors

	err error // the line could not be read
}

// answer goes from the guard to the driver process.
type answer struct {
	N     int    `json:"n"`
	Err   string `json:"error,omitempty"`
	Hello *hello `json:"hello,omitempty"` // to Attached
}

type hello struct {
	Containment string   `json:"containment"`
	Cgroup      string   `json:"cgroup,omitempty"`
	Replaces    []string `json:"replaces,omitempty"`

	Replaced map[Why]int64    `json:"replaced,omitempty"` // driver processes before this one
	Kept     map[string]int64 `json:"kept,omitempty"`     // what these left
}

// send writes one line. One write per line: os.File keeps writers apart.
func send(to *os.File, message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(line) >= lineBytes {
		return fmt.Errorf("a message of %d bytes, at most %d", len(line), lineBytes)
	}
	if err := to.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return err
	}
	_, err = to.Write(append(line, '\n'))
	return err
}

func lines(from io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(from)
	s.Buffer(nil, lineBytes)
	return s
}

// withWorker adds an id; without removes some. Neither changes its argument.
func withWorker(ids []string, id string) []string {
	if slices.Contains(ids, id) {
		return ids
	}
	longer := append(slices.Clone(ids), id)
	return longer[max(0, len(longer)-maxWorkers):]
}

func without(ids, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(gone, id) })
}
