package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Result is the result of a case, as its JSON file has it.
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

// Line is a goal and its outcome.
type Line struct {
	What    string  `json:"what"`
	Wanted  string  `json:"wanted,omitempty"`
	Reached *bool   `json:"reached,omitempty"` // nil: the goal has no bound
	Figure  Figure  `json:"figure"`
	Guarded bool    `json:"guarded,omitempty"`
	Falls   bool    `json:"falls,omitempty"` // a smaller figure is worse
	Slack   float64 `json:"slack,omitempty"`
}

// judge appends to r.Lines a line for each goal, with its figure and whether it is reached. It leaves out a goal with a figure that
// this machine cannot measure. It returns an error if the two sides of a ratio have different numbers of rounds.
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

// pairs divides own by other, round by round. Both must have the same length.
func pairs(own, other []float64) []float64 {
	ratios := make([]float64, len(own))
	for i := range own {
		ratios[i] = own[i] / other[i]
	}
	return ratios
}

func resultPath(dir, name string) string { return filepath.Join(dir, name+".json") }

// save writes the result to a file in the folder dir, atomically: half a file would look like a case that is done.
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

// load returns the result of a case from the folder dir. It returns nil without an error if the case has no file there.
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

// loadAll returns the results in a folder, in the order of the cases. A folder without results is an error.
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

// Figure is a figure over all rounds.
type Figure struct {
	Rounds []float64 `json:"rounds"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
}

func newFigure(rounds []float64) Figure {
	if len(rounds) == 0 {
		return Figure{}
	}
	return Figure{rounds, quantile(rounds, 0.5), slices.Min(rounds), slices.Max(rounds)}
}

// quantile returns the smallest value that at least the share q of the values, from 0 to 1, does not exceed. It returns the zero
// value if there are no values.
func quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		var none T
		return none
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// short writes a number for people: numbers from 100 on without decimals and with commas between thousands, smaller ones with two
// or three significant digits.
func short(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1000:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case size >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func thousands(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// rate returns how many of n things were done per second.
func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spread returns the median and the 99th percentile of durations, in milliseconds.
func spread(took []time.Duration) Values {
	return Values{msMedian: milliseconds(quantile(took, 0.5)), msP99: milliseconds(quantile(took, 0.99))}
}

// Names of metrics that several cases share.
const (
	stepsPerSecond = "steps/s"
	runsPerSecond  = "runs/s"
	microsPerStep  = "µs/step"
	msMedian       = "median ms"
	msP99          = "p99 ms"
)

// show prints a result: the figures of each side, their cost on the server, and the outcome of the goals.
func show(w io.Writer, r *Result) {
	fmt.Fprintf(w, "\n%s: %s\n", r.Case, r.About)
	fmt.Fprintf(w, "  %d rounds, %s; median (min … max)\n", r.Rounds, took(r.Took))
	if r.Scale < 1 {
		fmt.Fprintf(w, "  %s of the work: not for figures\n", short(r.Scale))
	}
	for _, setting := range r.Settings {
		fmt.Fprintf(w, "  %s\n", setting)
	}
	fmt.Fprintf(w, "  %s\n", r.Machine)
	for _, side := range r.Sides {
		fmt.Fprintf(w, "  %-32s%s\n", side, figuresOf(r.Figures[side], false))
		if per := figuresOf(r.Figures[side], true); per != "" {
			fmt.Fprintf(w, "  %-32s%s\n", "", per)
		}
	}
	for _, line := range r.Lines {
		fmt.Fprintf(w, "  %s %s\n", line.mark(), line)
	}
}

// figuresOf lists the figures of a side on one line. If counted is set, they are the counts and processor times per unit, otherwise
// the figures of the case itself.
func figuresOf(figures map[string]Figure, counted bool) string {
	var all []string
	for _, metric := range slices.Sorted(maps.Keys(figures)) {
		switch f := figures[metric]; {
		case isCount(metric) != counted:
		case counted:
			all = append(all, fmt.Sprintf("%s %s", short(f.Median), strings.TrimSuffix(metric, " per unit")))
		default:
			all = append(all, fmt.Sprintf("%s %s", f, metric))
		}
	}
	if counted && len(all) > 0 {
		return "per unit: " + strings.Join(all, ", ")
	}
	return strings.Join(all, "   ")
}

// String returns the median, and in parentheses the smallest and the largest value. If all values are equal, it returns only the
// median.
func (f Figure) String() string {
	if f.Min == f.Max {
		return short(f.Median)
	}
	return fmt.Sprintf("%s (%s … %s)", short(f.Median), short(f.Min), short(f.Max))
}

func (l Line) String() string {
	text := fmt.Sprintf("%s  %s", l.What, l.Figure)
	if l.Wanted != "" {
		text += ", wanted " + l.Wanted
	}
	return text
}

// answer returns "yes" or "no" for a goal that is reached or not, and "" for a goal without a bound.
func (l Line) answer() string {
	if l.Reached == nil {
		return ""
	}
	return map[bool]string{true: "yes", false: "no"}[*l.Reached]
}

// mark returns the answer as one character: ✓, ✗, or · for a goal without a bound.
func (l Line) mark() string {
	return map[string]string{"": "·", "yes": "✓", "no": "✗"}[l.answer()]
}

// String describes the machine and the versions on one line. Figures must not be read without them.
func (m Machine) String() string {
	return fmt.Sprintf("%d × %s, %s, Linux %s, load %s; %s; %s; %s; %s", m.Cores, m.CPU, m.Memory, m.Kernel, m.Load, m.Go, m.Oarlock,
		strings.Join(m.Modules, ", "), strings.Join(m.Postgres, " "))
}

// report prints the results in a folder as the table of docs/internals/performance.md.
func report(dir string, w io.Writer) error {
	all, err := loadAll(dir)
	if err == nil {
		markdown(w, all)
	}
	return err
}

// markdown writes a table with a row for each goal, a table with a row for each side, and a line about the machine for each case.
func markdown(w io.Writer, all []*Result) {
	fmt.Fprint(w, "| case | what | median (min … max) | wanted | reached |\n|---|---|---|---|---|\n")
	for _, r := range all {
		for _, l := range r.Lines {
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", r.Case, l.What, l.Figure, orElse(l.Wanted, "–"), orElse(l.answer(), "–"))
		}
	}
	fmt.Fprint(w, "\n| case | side | figures | statements | rows | buffers | WAL bytes | µs of the server | µs of the process |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		for _, side := range r.Sides {
			fmt.Fprintf(w, "| %s | %s | %s |", r.Case, side, figuresOf(r.Figures[side], false))
			for _, count := range counts[:6] {
				fmt.Fprintf(w, " %s |", countOf(r.Figures[side], count))
			}
			fmt.Fprintln(w)
		}
	}
	for _, r := range all {
		fmt.Fprintf(w, "\n%s: %d rounds, %s UTC, %s\n", r.Case, r.Rounds, r.At.Format("2006-01-02 15:04"), r.Machine)
	}
}

func countOf(figures map[string]Figure, count string) string {
	if f, ok := figures[count]; ok {
		return short(f.Median)
	}
	return "–"
}
