package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Result is what one seed came to.
type Result struct {
	Seed         uint64         `json:"seed"`
	Scene        string         `json:"scene"`
	At           string         `json:"at"`
	TookMS       int64          `json:"took_ms"`
	LagMS        int64          `json:"lag_ms"` // the longest that this machine let the test itself wait for its turn
	Faults       map[string]int `json:"faults"`
	Runs         int            `json:"runs"`
	Tasks        int            `json:"tasks"` // that started
	Attempts     int            `json:"attempts"`
	Lost         int            `json:"lost"`      // attempts whose driver was lost
	Takeovers    int            `json:"takeovers"` // drives after a run's first
	Changes      int            `json:"changes"`   // of the audit trail, each of them looked at
	Sights       int            `json:"sights"`    // lines of the witness
	LogBytes     int64          `json:"log_bytes"`
	Calls        int            `json:"calls"`
	Canceled     int            `json:"canceled"`
	Moments      int            `json:"moments"`    // at which the sharing of work was looked at
	Unsure       int            `json:"unsure"`     // of these, those at which the machine had kept the sampler waiting
	Open         int            `json:"open"`       // moments at which a worker had a free slot
	Waits        int            `json:"waits"`      // for a slot, that were looked at
	Held         int            `json:"held"`       // of these, those on a worker
	Beside       int            `json:"beside"`     // of these, those beside a free slot
	LongestMS    int64          `json:"longest_ms"` // of these
	Moves        int            `json:"moves"`      // of runs, for want of a slot
	Violations   []string       `json:"violations,omitempty"`
	Inconclusive []string       `json:"inconclusive,omitempty"` // seen while the machine itself stood still for too long
}

// Append adds a line to a file, whole or not at all.
func Append(path string, r *Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write a result: %w", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // for all to read
	if err != nil {
		return fmt.Errorf("write a result: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write a result: %w", err)
	}
	return nil
}

// Read returns the results of a file.
func Read(r io.Reader) (all []Result, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var result Result
		if err := json.Unmarshal(lines.Bytes(), &result); err != nil {
			return nil, fmt.Errorf("read results: line %d: %w", n, err)
		}
		all = append(all, result)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	return all, nil
}

const maxLine = 16 << 20
