package bareloop

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	newWorker = sql.Named("bare/worker")
	newRuns   = sql.Named("bare/runs")
	flush     = sql.Named("bare/flush")
)

const (
	maxRows  = 1000 // of a flush, as the journal's
	maxQueue = 4096 // commits that wait
)

// Loop writes through one connection as one worker.
type Loop struct {
	Body   func() // of every step; nil: it ends at once
	AtOnce int    // runs that are driven at the same time; 0: all

	conn   *pgx.Conn
	worker uuid.UUID
}

// Row is a record of a task; Over ends the run with it.
type Row struct {
	Run   int64
	Claim uuid.UUID
	Step  int
	State string
	Seq   int64
	Over  bool
}

// New makes a worker of its own in a database that has a DAG.
func New(ctx context.Context, conn *pgx.Conn) (*Loop, error) {
	l := &Loop{conn: conn, worker: uuid.New()}
	if _, err := conn.Exec(ctx, newWorker, l.worker); err != nil {
		return nil, fmt.Errorf("make a worker: %w", err)
	}
	return l, nil
}

// For is a Loop of a worker that is there already.
func For(conn *pgx.Conn, worker uuid.UUID) *Loop { return &Loop{conn: conn, worker: worker} }

// Flush writes rows.
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

// commit is what one run has to say, and where it waits until that is durable.
type commit struct {
	rows []Row
	done chan struct{}
}

// Chains makes runs and drives each through a chain of steps, with a record when a step starts and one when it ends, the
// end of a step together with the start of the next. It returns what the driving took.
func (l *Loop) Chains(ctx context.Context, runs, steps int) (time.Duration, error) {
	claimed, err := l.conn.Query(ctx, newRuns, l.worker, runs)
	if err != nil {
		return 0, fmt.Errorf("make runs: %w", err)
	}
	firsts, err := pgx.CollectRows(claimed, func(row pgx.CollectableRow) (r Row, err error) {
		return r, row.Scan(&r.Run, &r.Claim)
	})
	if err != nil {
		return 0, fmt.Errorf("make runs: %w", err)
	}
	begun := time.Now()
	err = l.drive(ctx, firsts, steps)
	return time.Since(begun), err
}

// drive has a goroutine per run, one that writes, and nothing between them but channels.
func (l *Loop) drive(ctx context.Context, firsts []Row, steps int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	commits, ended := make(chan commit, maxQueue), make(chan struct{}, len(firsts))
	todo := make(chan Row, len(firsts))
	for _, r := range firsts {
		todo <- r
	}
	close(todo)
	for range cmp.Or(l.AtOnce, len(firsts)) {
		go func() {
			for r := range todo {
				r.chain(ctx, steps, l.Body, commits)
				ended <- struct{}{}
			}
		}()
	}
	var rows []Row
	var waiting []chan struct{}
	for left := len(firsts); left > 0; {
		select {
		case c := <-commits:
			rows, waiting = append(rows, c.rows...), append(waiting, c.done)
			if len(rows) < maxRows-1 && len(commits) > 0 {
				continue
			}
		case <-ended:
			left--
			continue
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
