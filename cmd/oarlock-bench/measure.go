package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/sql"
)

// measure prepares a case, lets its sides take turns for this number of rounds, and judges the figures by the goals of the case. A
// case that runs Once has one round. measure removes afterwards what the case has made.
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
	samples, err := takeTurns(ctx, sides, rounds, lab.say, lab.turn)
	if err != nil {
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

// rounds are the figures of all rounds, by side and metric.
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

// turn runs one round of a side, and adds to its figures what the round cost the server and this process.
func (l *Lab) turn(ctx context.Context, side Side) (Values, error) {
	before, err := side.Count.counters(ctx)
	if err != nil {
		return nil, err
	}
	start, known := l.processorTime()
	sample, err := side.Round(ctx)
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

// String lists the values by name on one line. It leaves out counts and processor times per unit, which are for the report.
func (v Values) String() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !isCount(name) {
			text += fmt.Sprintf("  %s %s", short(v[name]), name)
		}
	}
	return text
}

var countersSQL = sql.Named("bench/ask_counters")

// Counters are the server's counts so far.
type Counters struct {
	Statements, Rows, Buffers float64 // of a database
	WALBytes, FullPages       float64 // of the server
}

// Names of the counters that the server keeps, each per unit of work.
const (
	statementsPer = "statements per unit"
	rowsPer       = "rows per unit"
	buffersPer    = "buffers per unit"
	walPer        = "WAL bytes per unit"
	fullPagesPer  = "full-page images per unit"
)

var counts = []string{statementsPer, rowsPer, buffersPer, walPer, serverMicros, processMicros, fullPagesPer}

func isCount(metric string) bool { return slices.Contains(counts, metric) }

// counters returns the server's counters so far. It returns nil without an error if d is nil or if the server does not count.
func (d *Database) counters(ctx context.Context) (*Counters, error) {
	if d == nil || !d.counting {
		return nil, nil
	}
	rows, err := d.asker.Query(ctx, countersSQL)
	if err != nil {
		return nil, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByPos[Counters])
}

// since returns by how much the counters grew after before, per unit of work. It returns nil if c or before is nil, or if there are
// no units.
func (c *Counters) since(before *Counters, units float64) Values {
	if c == nil || before == nil || units == 0 {
		return nil
	}
	return Values{
		statementsPer: (c.Statements - before.Statements) / units,
		rowsPer:       (c.Rows - before.Rows) / units,
		buffersPer:    (c.Buffers - before.Buffers) / units,
		walPer:        (c.WALBytes - before.WALBytes) / units,
		fullPagesPer:  (c.FullPages - before.FullPages) / units,
	}
}

// Names of processor time per unit of work. Unlike elapsed time it hardly depends on what else the machine does.
const (
	serverMicros  = "µs of the server per unit"
	processMicros = "µs of this process per unit"
)

// processorTime is the processor time of the server and of this process so far.
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

// familyTime returns the processor time that a process and its children have used, including children that have ended. It leaves
// out a child that it cannot read, and returns an error only if it cannot read the process itself.
func familyTime(pid int) (time.Duration, error) {
	stat, err := procStatOf(pid)
	sum := stat.Used + stat.ChildrenUsed
	children, _ := procfs.Children(pid)
	for _, child := range children { // ChildrenUsed is the time of children that have ended
		stat, _ := procStatOf(child)
		sum += stat.Used + stat.ChildrenUsed
	}
	return sum, err
}

var errNotHere = errors.New("this system does not tell")

func procStatOf(pid int) (procfs.Stat, error) {
	stat, err := procfs.ReadStat(pid)
	if err != nil {
		return stat, fmt.Errorf("process %d: %w", pid, errors.Join(errNotHere, err))
	}
	return stat, nil
}
