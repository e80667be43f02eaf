package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// measure has the sides of a case take turns, and judges what they gave.
func measure(ctx context.Context, lab *Lab, c Case, rounds int) (r *Result, err error) {
	if c.Once {
		rounds = 1
	}
	begun := time.Now()
	stage := lab.stage(c.Name)
	defer func() { err = errors.Join(err, stage.close()) }()
	sides, err := c.Prepare(ctx, stage)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	samples, err := takeTurns(ctx, sides, rounds, lab.say, func(ctx context.Context, side Side) (Values, error) {
		return lab.turn(ctx, c.Name, side)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if err := lab.options.writeStatements(ctx, c.Name, sides); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	r = &Result{
		Case: c.Name, About: c.About, Bound: c.Bound, At: begun.UTC().Truncate(time.Second), Took: time.Since(begun).Seconds(),
		Rounds: rounds, Scale: lab.options.scale, Machine: lab.machine, Settings: c.Settings, Figures: samples.figures(),
	}
	for _, side := range sides {
		r.Sides = append(r.Sides, side.Name)
	}
	return r, r.judge(c.Goals)
}

// rounds of all sides: what each gave, by side and metric.
type rounds map[string]map[string][]float64

func takeTurns(
	ctx context.Context, sides []Side, n int, say func(string, ...any), turn func(context.Context, Side) (Values, error),
) (rounds, error) {
	all := rounds{}
	for i := range n {
		for _, side := range sides {
			values, err := turn(ctx, side)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", side.Name, i+1, err)
			}
			all.add(side.Name, values)
			say("    round %d of %d: %-28s %s", i+1, n, side.Name, values)
		}
	}
	return all, nil
}

// turn is a round of a side, with what it cost the server and this process.
func (l *Lab) turn(ctx context.Context, name string, side Side) (Values, error) {
	before, err := side.Count.counters(ctx)
	if err != nil {
		return nil, err
	}
	start, known := l.processorTime()
	stop, err := l.options.startProfile(name + "." + strings.ReplaceAll(side.Name, " ", "-"))
	if err != nil {
		return nil, err
	}
	sample, err := side.Round(ctx)
	stop()
	if err != nil {
		return nil, err
	}
	if end, _ := l.processorTime(); known {
		maps.Copy(sample.Values, end.since(start, sample.Units))
	}
	after, err := side.Count.counters(ctx)
	if err != nil {
		return nil, err
	}
	maps.Copy(sample.Values, after.since(before, sample.Units))
	return sample.Values, nil
}

func (r rounds) add(side string, values Values) {
	if r[side] == nil {
		r[side] = map[string][]float64{}
	}
	for metric, v := range values {
		r[side][metric] = append(r[side][metric], v)
	}
}

func (r rounds) figures() map[string]map[string]Figure {
	figures := map[string]map[string]Figure{}
	for side, metrics := range r {
		figures[side] = map[string]Figure{}
		for metric, values := range metrics {
			figures[side][metric] = newFigure(values)
		}
	}
	return figures
}

// String shows what is no count of the server's.
func (v Values) String() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !isCount(name) {
			text += fmt.Sprintf("  %s %s", short(v[name]), name)
		}
	}
	return text
}
