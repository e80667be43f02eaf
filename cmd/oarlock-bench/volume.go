package main

import (
	"context"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker"
)

var logSizeSQL = sql.Named("bench/ask_log_size")

const (
	littleLog = "10 MB by 4 tasks"
	moreLog   = "100 MB by 4 tasks"
	muchLog   = "1 GB by 32 tasks"
	oneWriter = "50 MB by one task"
	shortLogs = "10 MB by 1,000 tasks"
	slowLogs  = "3 MB by 256 tasks, a line every 20 ms"
	logLine   = 100 // bytes
	slowLines = 120
	slowEvery = 20 * time.Millisecond
	tablePer  = "bytes of tables per byte"
	fourTasks = 4
	manyShort = 1000
	slowTasks = 256

	linesOfTask = slowLines * logLine
)

func volumeCase() Case {
	return Case{
		Name: "volume", About: "What a megabyte of logs costs as there is more of it: one run whose tasks write 10 MB, 100 MB and 1 GB in pieces of 32 KiB; one task that writes alone; many tasks at once that write little, in lines of 100 bytes.",
		Bound:    "as logs; of short ones what their tasks cost",
		Settings: busySettings,
		Prepare:  prepareVolume,
		Goals: []Goal{
			{Side: moreLog, Metric: megabytesPerS, Of: littleLog},
			{Side: muchLog, Metric: megabytesPerS, Of: littleLog},
			{Side: oneWriter, Metric: megabytesPerS, Of: moreLog},
			{Side: shortLogs, Metric: megabytesPerS, Of: littleLog},
			{Side: slowLogs, Metric: tablePer, Of: moreLog},
		},
	}
}

func prepareVolume(ctx context.Context, s *Stage) (sides []Side, err error) {
	const mega = 1_000_000
	for _, v := range []volume{
		{littleLog, fourTasks, s.count(10*mega/fourTasks/logPiece, 1), logPiece, 0},
		{moreLog, fourTasks, s.count(100*mega/fourTasks/logPiece, 2), logPiece, 0},
		{muchLog, 32, s.count(1000*mega/32/logPiece, 2), logPiece, 0},
		{oneWriter, 1, s.count(50*mega/logPiece, 2), logPiece, 0},
		{shortLogs, s.count(manyShort, 4), 10_000 / logLine, logLine, 0},
		{slowLogs, s.count(slowTasks, 4), slowLines, logLine, slowEvery},
	} {
		side, err := v.side(ctx, s)
		if err != nil {
			return nil, err
		}
		sides = append(sides, side)
	}
	return sides, nil
}

// volume is a run of some tasks that write so often so many bytes, with pauses or without.
type volume struct {
	name                 string
	tasks, writes, bytes int
	pause                time.Duration
}

func (v volume) side(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx, fmt.Sprintf("name: volume\nparams: [{name: items, type: json, required: true}]\n"+
		"steps: [{id: a, foreach: {items: '${params.items}', max_items: %d, max_concurrent: 0}, action: talk}]\n", v.tasks))
	if err != nil {
		return Side{}, err
	}
	if err := s.embed(ctx, d, busy, map[string]worker.Func{"talk": v.talk(logText(max(v.bytes, linesOfTask)))}); err != nil {
		return Side{}, err
	}
	if err := d.workersLive(ctx, 1); err != nil {
		return Side{}, err
	}
	return Side{Name: v.name, Count: d, Round: func(ctx context.Context) (Sample, error) { return v.round(ctx, d) }}, nil
}

func (v volume) talk(text []byte) worker.Func {
	return func(ctx context.Context, task *worker.Task) (worker.Outputs, error) {
		for i := range v.writes {
			from := i * v.bytes % (len(text) - v.bytes + 1)
			if _, err := task.Stdout.Write(text[from : from+v.bytes]); err != nil {
				return nil, err
			}
			if v.pause == 0 {
				continue
			}
			select {
			case <-time.After(v.pause):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	}
}

func (v volume) round(ctx context.Context, d *Database) (sample Sample, err error) {
	var before, after float64
	if err := d.asker.QueryRow(ctx, logSizeSQL).Scan(&before); err != nil {
		return Sample{}, err
	}
	runs, err := d.EnqueueMany(ctx, queue.Bulk{DAG: "volume", Params: growth{runs: 1, items: v.tasks}.params()})
	if err != nil {
		return Sample{}, err
	}
	begun := time.Now()
	if err := d.settled(ctx); err != nil {
		return Sample{}, err
	}
	took, bytes := time.Since(begun).Seconds(), v.tasks*v.writes*v.bytes
	if err := d.asker.QueryRow(ctx, logSizeSQL).Scan(&after); err != nil {
		return Sample{}, err
	}
	megabytes := float64(bytes) / 1e6
	return Sample{Units: megabytes, Values: Values{megabytesPerS: megabytes / took, tablePer: (after - before) / float64(bytes)}},
		d.allThere(ctx, runs, int64(bytes))
}
