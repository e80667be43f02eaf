package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker"
)

var (
	loggedSQL        = sql.Named("bench/ask_logged")
	notificationsSQL = sql.Named("bench/ask_notifications")
)

const (
	logBytes    = 192 << 20 // of all tasks together
	logTasks    = 4
	logPiece    = 32 << 10              // what a task writes at once
	followLines = 500                   // of a run that is followed
	lineEvery   = 10 * time.Millisecond // in which it says something

	megabytesPerS = "MB/s"
	followed      = "oarlock, followed"
	bareCopy      = "bare COPY, lz4"
)

func logsCase() Case {
	return Case{
		Name: "logs", About: "Four tasks at once that write 192 MiB of text between them; then one that says something every 10 ms, first while nobody reads it and then while somebody follows it.",
		Bound:    "compression in the server (lz4 per chunk of 32 KiB), and the WAL",
		Settings: append(defaultSettings, "bare COPY: the same chunks into the same table, one COPY, one connection"),
		Prepare:  prepareLogs,
		Goals: []Goal{
			{Side: ours, Metric: megabytesPerS, Of: bareCopy, AtLeast: 0.5, Guarded: true},
			{Side: followed, Metric: msP99, AtMost: 50},
			{Side: followed, Metric: msMedian},
			{Side: followed, Metric: notifiesUnwatched},
		},
	}
}

func prepareLogs(ctx context.Context, s *Stage) ([]Side, error) {
	own, err := logWorker(ctx, s)
	if err != nil {
		return nil, err
	}
	limit, err := logCopy(ctx, s)
	if err != nil {
		return nil, err
	}
	follow, err := logFollower(ctx, s)
	return []Side{own, limit, follow}, err
}

// pieces is how many a task writes.
func (s *Stage) pieces() int { return s.count(logBytes/logTasks/logPiece, 4) }

func logSample(pieces int, took time.Duration) Sample {
	megabytes := float64(pieces*logPiece) / 1e6
	return Sample{Units: megabytes, Values: Values{megabytesPerS: megabytes / took.Seconds()}}
}

// logText looks like what programs say: lines that repeat, with numbers that do not.
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

// allThere makes sure that what was measured is that logs were stored, not dropped.
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

// speaker is a body that says what time it is, again and again, and counts notifications meanwhile.
type speaker struct {
	conn     *pgx.Conn // its own: it speaks while others ask
	lines    int
	notified chan float64 // how many, once for each time it has spoken
}

// flushPatience is what the server's statistics may take to be there.
const flushPatience = 1500 * time.Millisecond

func (s *speaker) body(ctx context.Context, task *worker.Task) (worker.Outputs, error) {
	before, err := s.notifications(ctx)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lineEvery)
	defer tick.Stop()
	for range s.lines {
		select {
		case <-tick.C:
			fmt.Fprintln(task.Stdout, time.Now().UnixNano())
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	now, err := s.notifications(ctx)
	s.notified <- now - before
	return nil, err
}

// notifications are counted by the whole server. Backends report at the end of a transaction, at most once a second.
func (s *speaker) notifications(ctx context.Context) (n float64, err error) {
	select {
	case <-time.After(flushPatience):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	err = s.conn.QueryRow(ctx, notificationsSQL).Scan(&n)
	return n, err
}

// logFollower measures how long a line takes to whoever follows, and that nobody is notified of a run that nobody follows.
func logFollower(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx, "name: follow\nsteps: [{id: a, action: say}]\n")
	if err != nil {
		return Side{}, err
	}
	conn, err := s.connect(ctx, d, unnoticed)
	if err != nil {
		return Side{}, err
	}
	voice := &speaker{conn: conn, lines: s.count(followLines, 20), notified: make(chan float64, 1)}
	if err := s.embed(ctx, d, defaultConfig, map[string]worker.Func{"say": voice.body}); err != nil {
		return Side{}, err
	}
	if err := d.workersLive(ctx, 1); err != nil {
		return Side{}, err
	}
	return Side{Name: followed, Round: func(ctx context.Context) (Sample, error) {
		if err := d.speak(ctx); err != nil {
			return Sample{}, err
		}
		unwatched := <-voice.notified
		run, err := d.Enqueue(ctx, queue.Request{DAG: "follow"})
		if err != nil {
			return Sample{}, err
		}
		took, err := d.follow(ctx, run)
		if err != nil {
			return Sample{}, err
		}
		if err := d.settled(ctx); err != nil {
			return Sample{}, err
		}
		if <-voice.notified == 0 && voice.lines >= followLines {
			return Sample{}, errors.New("no notification was counted of a run that is followed: the count says nothing")
		}
		sample := Sample{Units: float64(len(took)), Values: spread(took)}
		sample.Values[notifiesUnwatched] = unwatched
		return sample, nil
	}}, nil
}

// speak has a run that nobody follows go through.
func (d *Database) speak(ctx context.Context) error {
	if _, err := d.Enqueue(ctx, queue.Request{DAG: "follow"}); err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond) // not more often: the questions are statements, too
	defer tick.Stop()
	for {
		var left bool
		if err := d.asker.QueryRow(ctx, unfinishedSQL).Scan(&left); err != nil || !left {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// follow reads lines as they come: how long each took from the task to here.
func (d *Database) follow(ctx context.Context, run queue.RunID) (took []time.Duration, err error) {
	for chunk, err := range d.FollowLogs(ctx, queue.LogQuery{Run: run}) {
		if err != nil {
			return nil, err
		}
		now := time.Now()
		for line := range strings.Lines(string(chunk.Data)) {
			if at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
				took = append(took, now.Sub(time.Unix(0, at)))
			}
		}
	}
	return took, nil
}
