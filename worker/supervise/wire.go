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
	// marker is the variable by which a guard names the descriptors and their inodes: "3:INODE 4:INODE 5:INODE".
	marker = "OARLOCK_GUARD"

	fromGuardFD, toGuardFD, lockFD = 3, 4, 5 // numbers in the driver process

	lineBytes   = 64 << 10        // longest message
	writeWithin = 2 * time.Second // a pipe that takes nothing for so long has no reader
	maxWorkers  = 256             // ids in the lock file; beyond that the oldest are dropped, and their leases decide
)

// request is a message from the driver process to the guard, one line of JSON.
type request struct {
	N        int            `json:"n,omitempty"` // number of the answer; 0: no answer is wanted
	Attached bool           `json:"attached,omitempty"`
	Extend   *time.Duration `json:"extend,omitempty"` // since boot
	Use      string         `json:"use,omitempty"`
	Forget   []string       `json:"forget,omitempty"`

	Keep map[string]int64 `json:"keep,omitempty"` // counts for its successors

	err error // the line could not be parsed
}

// answer is a message from the guard to the driver process.
type answer struct {
	N     int    `json:"n"`
	Err   string `json:"error,omitempty"`
	Hello *hello `json:"hello,omitempty"` // answers Attached
}

type hello struct {
	Containment string   `json:"containment"`
	Cgroup      string   `json:"cgroup,omitempty"`
	Replaces    []string `json:"replaces,omitempty"`

	Replaced map[Why]int64    `json:"replaced,omitempty"` // number of earlier driver processes
	Kept     map[string]int64 `json:"kept,omitempty"`     // counts that they left
}

// send writes a message as one line of JSON, in a single write, so that os.File keeps concurrent writers apart. It returns an error
// if the line would have lineBytes or more, or the pipe takes nothing for writeWithin.
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

// withWorker returns ids with one more at its end. It returns ids as it is if it has the id already, and drops the oldest ids
// beyond maxWorkers. It does not change its argument.
func withWorker(ids []string, id string) []string {
	if slices.Contains(ids, id) {
		return ids
	}
	longer := append(slices.Clone(ids), id)
	return longer[max(0, len(longer)-maxWorkers):]
}

// without returns the ids that are not in gone. It does not change its arguments.
func without(ids, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(gone, id) })
}
