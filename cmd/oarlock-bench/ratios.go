package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// defaultSlack is how much worse than the committed ratio a ratio may be, as a part of the committed one. It is large
// because rounds are few and short, and machines are shared.
const defaultSlack = 0.3

// errFell reports that a ratio was worse than the committed one in two measurements.
var errFell = errors.New("a ratio fell")

// Ratios is the file of committed ratios.
type Ratios struct {
	Note   string  `json:"note"`
	Kept   string  `json:"kept"`
	On     string  `json:"on"`
	Ratios []Ratio `json:"ratios"`
}

// Ratio is the committed ratio of a guarded goal.
type Ratio struct {
	Case  string  `json:"case"`
	What  string  `json:"what"`
	Ratio float64 `json:"ratio"`
	Falls bool    `json:"falls"` // a smaller ratio is worse
	Slack float64 `json:"slack"`
}

const ratiosNote = "Rewritten by `make bench-keep`; `make bench-quick` fails when a ratio is worse than here by more than its slack. Ratios of two sides in one run: absolute figures differ between machines."

// quick is a quick run: it compares ratios with the committed ones, or replaces the committed ones.
type quick struct {
	options

	committed *Ratios
	lab       *Lab
	stdout    io.Writer
}

// runQuick measures the guarded goals of the named cases, or of all cases. It prints the ratios beside the committed ones, and
// returns errFell if one is worse by more than its slack. With --keep it writes the ratios to the file instead.
func runQuick(ctx context.Context, o options, stdout io.Writer, say func(string, ...any)) (err error) {
	picked, err := chosen(o.names)
	if err != nil {
		return err
	}
	q := quick{options: o, stdout: stdout}
	if q.committed, err = readRatios(o.ratios); err != nil && !o.keep {
		return err
	}
	if q.lab, err = openLab(ctx, o, say); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.lab.close()) }()
	fell := false
	var all []*Result
	for _, c := range picked {
		c, ok := c.guarded()
		if !ok {
			continue
		}
		r, err := q.measure(ctx, c)
		if err != nil {
			return err
		}
		fell = q.committed.compare(stdout, r) || fell
		all = append(all, r)
	}
	switch {
	case o.keep:
		return keepRatios(o.ratios, all)
	case fell:
		return errFell
	}
	return nil
}

// measure measures a case, with the share of the work that is enough for a quick run. If a ratio fell, it measures once more and
// returns only the second result, so that only a fall that it sees twice counts.
func (q *quick) measure(ctx context.Context, c Case) (*Result, error) {
	q.lab.options.scale = q.scale * orElse(c.Quick, 1)
	r, err := measure(ctx, q.lab, c, q.rounds)
	if err != nil || q.keep || len(q.committed.worse(r)) == 0 {
		return r, err
	}
	q.lab.say("%s: a ratio fell, once more", c.Name)
	return measure(ctx, q.lab, c, q.rounds)
}

func readRatios(path string) (*Ratios, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the committed ratios: %w (make bench-keep writes them)", err)
	}
	all := new(Ratios)
	if err := json.Unmarshal(text, all); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return all, nil
}

// of returns the committed ratio for a line of the case called name. It reports false if there is none, as for a nil r.
func (r *Ratios) of(name string, l Line) (Ratio, bool) {
	if r == nil {
		return Ratio{}, false
	}
	i := slices.IndexFunc(r.Ratios, func(kept Ratio) bool { return kept.Case == name && kept.What == l.What })
	if i < 0 {
		return Ratio{}, false
	}
	return r.Ratios[i], true
}

// worse returns the guarded lines of a result with a ratio beyond the limit of the committed one.
func (r *Ratios) worse(result *Result) (fell []Line) {
	for _, line := range result.Lines {
		if kept, ok := r.of(result.Case, line); ok && line.Guarded && kept.fell(line.Figure.Median) {
			fell = append(fell, line)
		}
	}
	return fell
}

// limit returns the worst ratio that is still good enough: the committed one, less or more by its slack.
func (r Ratio) limit() float64 {
	if r.Falls {
		return r.Ratio * (1 - r.Slack)
	}
	return r.Ratio * (1 + r.Slack)
}

func (r Ratio) fell(now float64) bool {
	if r.Falls {
		return now < r.limit()
	}
	return now > r.limit()
}

// compare prints the guarded lines of a result beside the committed ratios, and reports whether a ratio fell. A line without a
// committed ratio never counts as fallen.
func (r *Ratios) compare(w io.Writer, result *Result) (fell bool) {
	for _, line := range result.Lines {
		if !line.Guarded {
			continue
		}
		kept, ok := r.of(result.Case, line)
		state := "not committed"
		if ok {
			state = fmt.Sprintf("committed %s, limit %s", short(kept.Ratio), short(kept.limit()))
			if kept.fell(line.Figure.Median) {
				state, fell = "FELL: "+state, true
			}
		}
		fmt.Fprintf(w, "%-10s %-60s %-24s %s\n", result.Case, line.What, line.Figure, state)
	}
	return fell
}

// keepRatios writes the ratios of the results to the file at path, in place of the earlier ratios of these cases. Ratios of other
// cases in the file stay. A file that is missing or cannot be read counts as empty.
func keepRatios(path string, results []*Result) error {
	kept, err := readRatios(path)
	if err != nil {
		kept = new(Ratios)
	}
	for _, result := range results {
		kept.Ratios = slices.DeleteFunc(kept.Ratios, func(r Ratio) bool { return r.Case == result.Case })
		for _, line := range result.Lines {
			if line.Guarded {
				kept.Ratios = append(kept.Ratios, Ratio{
					Case: result.Case, What: line.What, Ratio: roundTo3(line.Figure.Median), Falls: line.Falls, Slack: orElse(line.Slack, defaultSlack),
				})
			}
		}
		kept.On = result.Machine.String()
	}
	order := caseNames(cases())
	slices.SortStableFunc(kept.Ratios, func(a, b Ratio) int { return slices.Index(order, a.Case) - slices.Index(order, b.Case) })
	kept.Note, kept.Kept = ratiosNote, time.Now().UTC().Format(time.DateOnly)
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return fmt.Errorf("write the ratios: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // every user may read it
}

func roundTo3(v float64) float64 { return float64(int(v*1000+0.5)) / 1000 }
