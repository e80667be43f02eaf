package baseline

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	newWorker = sql.Named("bare/worker")
	newRuns   = sql.Named("bare/runs")
	queueRuns = sql.Named("bare/queued")
	claimRuns = sql.Named("bare/claim")
	flush     = sql.Named("bare/flush")
)

const (
	maxRows   = 1000 // rows of one flush, as the journal's
	maxClaims = 1000 // runs of one claim statement, as a poll's
	maxQueue  = 4096 // commits that wait
)

// Loop writes through one connection as one worker.
type Loop struct {
	Body   func()    // called for every step; nil: a step ends at once
	AtOnce int       // runs driven at the same time; 0: all
	Claims *pgx.Conn // connection that claims runs while others are driven; nil: runs are claimed before the clock starts

	conn   *pgx.Conn
	worker uuid.UUID
}

// Row is a record of a task. Over: it also ends the run.
type Row struct {
	Run   int64
	Claim uuid.UUID
	Step  int
	State string
	Seq   int64
	Over  bool
}

// New registers a new worker by conn, and returns a Loop that writes through conn. The database must have a DAG.
func New(ctx context.Context, conn *pgx.Conn) (*Loop, error) {
	l := &Loop{conn: conn, worker: uuid.New()}
	if _, err := conn.Exec(ctx, newWorker, l.worker); err != nil {
		return nil, fmt.Errorf("make a worker: %w", err)
	}
	return l, nil
}

// For returns a Loop that writes through conn as a worker that is registered already.
func For(conn *pgx.Conn, worker uuid.UUID) *Loop { return &Loop{conn: conn, worker: worker} }

// Flush writes rows in one statement, and returns once they are durable.
func (l *Loop) Flush(ctx context.Context, rows []Row) error {
	runs, steps, seqs := make([]int64, len(rows)), make([]int32, len(rows)), make([]int64, len(rows))
	claims, states := make([]uuid.UUID, len(rows)), make([]string, len(rows))
	over, overClaims := []int64{}, []uuid.UUID{}
	for i := range rows {
		r := &rows[i]
		runs[i], claims[i], steps[i], states[i], seqs[i] = r.Run, r.Claim, int32(r.Step), r.State, r.Seq
		if r.Over {
			over, overClaims = append(over, r.Run), append(overClaims, r.Claim)
		}
	}
	if _, err := l.conn.Exec(ctx, flush, l.worker, runs, claims, steps, states, seqs, over, overClaims); err != nil {
		return fmt.Errorf("flush %d rows: %w", len(rows), err)
	}
	return nil
}

// commit is the rows of one run, and a channel that is closed once they are durable.
type commit struct {
	rows []Row
	done chan struct{}
}

// Chains makes runs and drives each through a chain of steps. It records when a step starts and when it ends; the end of a step and
// the start of the next share a commit. It waits for the end of all runs, and returns the time that driving took, and claiming if
// l.Claims is set.
func (l *Loop) Chains(ctx context.Context, runs, steps int) (time.Duration, error) {
	todo := make(chan Row, runs)
	if l.Claims == nil {
		if _, err := l.take(ctx, l.conn, todo, newRuns, runs); err != nil {
			return 0, fmt.Errorf("make runs: %w", err)
		}
		close(todo)
		begun := time.Now()
		err := l.drive(ctx, todo, runs, steps)
		return time.Since(begun), err
	}
	if _, err := l.Claims.Exec(ctx, queueRuns, runs); err != nil {
		return 0, fmt.Errorf("queue runs: %w", err)
	}
	begun := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var claiming sync.WaitGroup
	claiming.Go(func() {
		defer close(todo)
		for left := runs; left > 0; {
			n, err := l.take(ctx, l.Claims, todo, claimRuns, min(left, maxClaims))
			if left -= n; err == nil && n == 0 {
				err = fmt.Errorf("%d runs are not there to be claimed", left)
			}
			if err != nil {
				cancel(fmt.Errorf("claim runs: %w", err))
				return
			}
		}
	})
	err := l.drive(ctx, todo, runs, steps)
	claiming.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return time.Since(begun), err
}

// take sends a statement that makes or claims at most n runs, sends these runs to todo, and returns their number.
func (l *Loop) take(ctx context.Context, conn *pgx.Conn, todo chan<- Row, statement string, n int) (int, error) {
	rows, err := conn.Query(ctx, statement, l.worker, n)
	if err != nil {
		return 0, err
	}
	var r Row
	taken, err := pgx.ForEachRow(rows, []any{&r.Run, &r.Claim}, func() error {
		todo <- r
		return nil
	})
	return int(taken.RowsAffected()), err
}

// drive drives the runs from todo, AtOnce at the same time, each in a goroutine, and writes their commits in the calling goroutine.
// There are only channels between them. It returns once this number of runs has ended.
func (l *Loop) drive(ctx context.Context, todo <-chan Row, runs, steps int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commits, ended := make(chan commit, maxQueue), make(chan struct{}, runs)
	for range cmp.Or(l.AtOnce, runs) {
		go func() {
			for r := range todo {
				r.chain(ctx, steps, l.Body, commits)
				ended <- struct{}{}
			}
		}()
	}
	return l.write(ctx, commits, ended, runs)
}

// write flushes the waiting commits, again and again, until ended has brought left ends of runs.
func (l *Loop) write(ctx context.Context, commits <-chan commit, ended <-chan struct{}, left int) error {
	var rows []Row
	var waiting []chan struct{}
	for left > 0 {
		select {
		case c := <-commits:
			rows, waiting = append(rows, c.rows...), append(waiting, c.done)
			if len(rows) < maxRows-1 && len(commits) > 0 {
				continue
			}
		case <-ended:
			left--
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.Flush(ctx, rows); err != nil {
			return err
		}
		for _, w := range waiting {
			w <- struct{}{}
		}
		rows, waiting = rows[:0], waiting[:0]
	}
	return nil
}

func (r Row) chain(ctx context.Context, steps int, body func(), commits chan<- commit) {
	done := make(chan struct{}, 1)
	for i := range steps + 1 {
		var rows []Row
		if i > 0 {
			rows = append(rows, r.at(i-1, "succeeded", 2*i+1, i == steps))
		}
		if i < steps {
			rows = append(rows, r.at(i, "running", 2*i+2, false))
		}
		select {
		case commits <- commit{rows, done}:
		case <-ctx.Done():
			return
		}
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
		if body != nil && i < steps {
			body()
		}
	}
}

func (r Row) at(step int, state string, seq int, over bool) Row {
	r.Step, r.State, r.Seq, r.Over = step, state, int64(seq), over
	return r
}
