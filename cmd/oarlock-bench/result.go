package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Result is what a case gave, as it stands in its JSON file.
type Result struct {
	Case     string                       `json:"case"`
	About    string                       `json:"about"`
	Bound    string                       `json:"bound"`
	At       time.Time                    `json:"at"`
	Took     float64                      `json:"took_s"`
	Rounds   int                          `json:"rounds"`
	Scale    float64                      `json:"scale"`
	Machine  Machine                      `json:"machine"`
	Settings []string                     `json:"settings"`
	Sides    []string                     `json:"sides"`
	Figures  map[string]map[string]Figure `json:"figures"` // by side and metric
	Lines    []Line                       `json:"lines"`
}

// Line is a goal and what became of it.
type Line struct {
	What    string  `json:"what"`
	Wanted  string  `json:"wanted,omitempty"`
	Reached *bool   `json:"reached,omitempty"` // nil: nothing was wanted
	Figure  Figure  `json:"figure"`
	Guarded bool    `json:"guarded,omitempty"`
	Falls   bool    `json:"falls,omitempty"` // smaller is worse
	Slack   float64 `json:"slack,omitempty"`
}

// judge compares what was measured with the goals of the case.
func (r *Result) judge(goals []Goal) error {
	for _, g := range goals {
		own, ok := r.Figures[g.Side][g.Metric]
		if !ok {
			continue // this machine cannot measure it
		}
		rounds := own.Rounds
		if g.Of != "" {
			other, ok := r.Figures[g.Of][orElse(g.OfOther, g.Metric)]
			if !ok {
				continue
			}
			if len(other.Rounds) != len(own.Rounds) {
				return fmt.Errorf("%s: %d rounds against %d", g, len(own.Rounds), len(other.Rounds))
			}
			rounds = pairs(own.Rounds, other.Rounds)
		}
		r.Lines = append(r.Lines, newLine(g, newFigure(rounds)))
	}
	return nil
}

func newLine(g Goal, f Figure) Line {
	line := Line{What: g.String(), Wanted: g.wanted(), Figure: f, Guarded: g.Guarded, Falls: g.AtLeast > 0, Slack: g.Slack}
	if g.bounded() {
		reached := g.reached(f.Median)
		line.Reached = &reached
	}
	return line
}

// pairs divides round by round.
func pairs(own, other []float64) []float64 {
	ratios := make([]float64, len(own))
	for i := range own {
		ratios[i] = own[i] / other[i]
	}
	return ratios
}

func resultPath(dir, name string) string { return filepath.Join(dir, name+".json") }

// save writes the file of a case in one step: half a file would look like a case that is done.
func (r *Result) save(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the result of %s: %w", r.Case, err)
	}
	path := resultPath(dir, r.Case)
	if err := os.WriteFile(path+".tmp", append(text, '\n'), 0o644); err != nil { //nolint:gosec // anybody may read it
		return fmt.Errorf("write the result of %s: %w", r.Case, err)
	}
	return os.Rename(path+".tmp", path)
}

// load reads the file of a case; nil: there is none.
func load(dir, name string) (*Result, error) {
	text, err := os.ReadFile(resultPath(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the result of %s: %w", name, err)
	}
	r := new(Result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read %s: %w (remove it to measure again)", resultPath(dir, name), err)
	}
	return r, nil
}

// loadAll reads what a folder holds, in the order of the cases.
func loadAll(dir string) (all []*Result, err error) {
	for _, name := range caseNames(cases()) {
		r, err := load(dir, name)
		if err != nil {
			return nil, err
		}
		if r != nil {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no results: measure with --out %s first", dir, dir)
	}
	return all, nil
}

func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
