package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker"
)

var (
	channelsSQL = sql.Named("bench/ask_channels")
	listenToSQL = sql.Named("bench/listen_to")
	followSQL   = sql.Named("queue/follow")
	tellSQL     = sql.Named("bench/tell")
)

const (
	followLines     = 500                   // of a run that is followed
	lineEvery       = 10 * time.Millisecond // in which it says something
	followFor       = 600                   // seconds
	neighbourHeard  = "bench_neighbour"
	overheardEnding = "over"
)

// say is a body that says what time it is, again and again.
func say(lines int) worker.Func {
	return func(ctx context.Context, task *worker.Task) (worker.Outputs, error) {
		tick := time.NewTicker(lineEvery)
		defer tick.Stop()
		for range lines {
			select {
			case <-tick.C:
				fmt.Fprintln(task.Stdout, time.Now().UnixNano())
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	}
}

// logFollower measures how long a line takes to whoever follows, and that nobody is notified of a run that nobody follows.
func logFollower(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx, "name: follow\nsteps: [{id: a, action: say}]\n")
	if err != nil {
		return Side{}, err
	}
	if err := s.embed(ctx, d, defaultConfig, map[string]worker.Func{"say": say(s.count(followLines, 20))}); err != nil {
		return Side{}, err
	}
	if err := d.workersLive(ctx, 1); err != nil {
		return Side{}, err
	}
	ear, err := s.eavesdrop(ctx, d)
	if err != nil {
		return Side{}, err
	}
	return Side{Name: followed, Round: func(ctx context.Context) (Sample, error) {
		unwatched, err := ear.unwatched(ctx)
		if err != nil {
			return Sample{}, err
		}
		run, err := d.Enqueue(ctx, queue.Request{DAG: "follow"})
		if err != nil {
			return Sample{}, err
		}
		took, err := d.follow(ctx, run)
		if err != nil {
			return Sample{}, err
		}
		sample := Sample{Units: float64(len(took)), Values: spread(took)}
		sample.Values[notifiesUnwatched] = float64(unwatched)
		return sample, d.until(ctx, unfinishedSQL)
	}}, nil
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

// eavesdropper hears all that is said on the channels of a database: those of its workers, and one on which a run is followed.
// The server's own count of notifications would not do: idle backends that were told something report it much later.
type eavesdropper struct {
	d    *Database
	conn *pgx.Conn // listens
}

func (s *Stage) eavesdrop(ctx context.Context, d *Database) (*eavesdropper, error) {
	conn, err := s.connect(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	rows, _ := conn.Query(ctx, channelsSQL) // the error is the rows' too
	channels, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, channel := range append(channels, neighbourHeard) {
		if _, err := conn.Exec(ctx, strings.ReplaceAll(listenToSQL, "{channel}", channel)); err != nil {
			return nil, err
		}
	}
	return &eavesdropper{d, conn}, nil
}

// unwatched counts what is said of a run that nobody follows, while another one at its side is followed.
func (e *eavesdropper) unwatched(ctx context.Context) (int, error) {
	runs, err := e.d.enqueue(ctx, "follow", 2)
	if err != nil {
		return 0, err
	}
	args := pgx.StrictNamedArgs{"run": runs[0], "channel": neighbourHeard, "seconds": followFor, "logs": true}
	if _, err := e.d.conn.Exec(ctx, followSQL, args); err != nil {
		return 0, err
	}
	if err := e.d.until(ctx, unfinishedSQL); err != nil {
		return 0, err
	}
	if _, err := e.d.conn.Exec(ctx, tellSQL, neighbourHeard, overheardEnding); err != nil {
		return 0, err
	}
	said := map[string]int{}
	for {
		notification, err := e.conn.WaitForNotification(ctx)
		if err != nil {
			return 0, err
		}
		if notification.Payload == overheardEnding {
			break
		}
		_, run, _ := strings.Cut(notification.Payload, ":")
		said[run]++
	}
	if said[strconv.FormatInt(int64(runs[0]), 10)] == 0 {
		return 0, errors.New("nothing was said of a run that is followed: that nothing is said of another proves nothing")
	}
	return said[strconv.FormatInt(int64(runs[1]), 10)], nil
}
