package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker"
)

var loggedSQL = sql.Named("bench/ask_logged")

const (
	logBytes = 192 << 20 // bytes of all tasks together
	logTasks = 4
	logPiece = 32 << 10 // bytes that a task writes at once

	megabytesPerS = "MB/s"
	bareCopy      = "bare COPY, lz4"
)

func logsCase() Case {
	return Case{
		Name: "logs", About: "Four tasks at once that write 192 MiB of text between them.",
		Bound:    "compression in the server (lz4 per chunk of 32 KiB), and the WAL",
		Settings: append(defaultSettings, "bare COPY: the same chunks into the same table, one COPY, one connection"),
		Prepare:  prepareLogs,
		Goals: []Goal{
			{Side: ours, Metric: megabytesPerS, Of: bareCopy, AtLeast: 0.5, Guarded: true},
		},
	}
}

func prepareLogs(ctx context.Context, s *Stage) ([]Side, error) {
	own, err := logWorker(ctx, s)
	if err != nil {
		return nil, err
	}
	limit, err := logCopy(ctx, s)
	return []Side{own, limit}, err
}

// pieces returns how many pieces of logPiece bytes each task writes.
func (s *Stage) pieces() int { return s.count(logBytes/logTasks/logPiece, 4) }

func logSample(pieces int, took time.Duration) Sample {
	megabytes := float64(pieces*logPiece) / 1e6
	return Sample{Units: megabytes, Values: Values{megabytesPerS: megabytes / took.Seconds()}}
}

// logText returns this number of bytes that look like the output of programs: lines that repeat, with changing numbers.
func logText(bytes int) []byte {
	var b strings.Builder
	for b.Len() < bytes {
		fmt.Fprintf(&b, "2026-11-22T00:%02d:%02d.%06dZ level=info msg=\"request handled\" id=%08x path=/v1/items/%d took=%dms\n",
			rand.N(60), rand.N(60), rand.N(1000000), rand.Uint32(), rand.N(100000), rand.N(500))
	}
	return []byte(b.String()[:bytes])
}

func logWorker(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx, "name: logs\nsteps: [{id: a, action: talk}]\n")
	if err != nil {
		return Side{}, err
	}
	text, pieces := logText(logPiece), s.pieces()
	err = s.embed(ctx, d, defaultConfig, map[string]worker.Func{"talk": func(_ context.Context, task *worker.Task) (worker.Outputs, error) {
		for range pieces {
			if _, err := task.Stdout.Write(text); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}})
	if err != nil {
		return Side{}, err
	}
	if err := d.warm(ctx, "logs", 1); err != nil {
		return Side{}, err
	}
	return Side{Name: ours, Count: d, Round: func(ctx context.Context) (Sample, error) {
		runs, err := d.enqueue(ctx, "logs", logTasks)
		if err != nil {
			return Sample{}, err
		}
		begun := time.Now()
		if err := d.settled(ctx); err != nil {
			return Sample{}, err
		}
		took := time.Since(begun)
		return logSample(logTasks*pieces, took), d.allThere(ctx, runs, int64(logTasks*pieces*logPiece))
	}}, nil
}

// allThere returns an error unless the logs of the runs have want bytes in the database and none were dropped: otherwise the
// measurement does not count.
func (d *Database) allThere(ctx context.Context, runs []queue.RunID, want int64) error {
	var stored, dropped int64
	if err := d.asker.QueryRow(ctx, loggedSQL, runs).Scan(&stored, &dropped); err != nil {
		return err
	}
	if stored != want || dropped != 0 {
		return fmt.Errorf("%d bytes of logs are stored and %d dropped, of %d", stored, dropped, want)
	}
	return nil
}

var chunkColumns = []string{"log_day", "run_id", "step", "item", "alt", "attempt", "seq", "stream", "at", "data"}

func logCopy(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx)
	if err != nil {
		return Side{}, err
	}
	text, n, run := logText(logPiece), logTasks*s.pieces(), 0
	return Side{Name: bareCopy, Count: d, Round: func(ctx context.Context) (Sample, error) {
		run++
		begun := time.Now()
		_, err := d.conn.CopyFrom(ctx, pgx.Identifier{"oarlock", "log_chunks"}, chunkColumns, pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			return []any{begun, run, 0, "", 0, 1, i, 1, begun, text}, nil
		}))
		return logSample(n, time.Since(begun)), err
	}}, nil
}
