package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of one DoChores. What is left is the next one's, or another worker's.
const (
	choreBatch      = 500 // runs woken or expired by one statement
	logDaysAhead    = 3
	logDaysInterval = time.Hour
)

var (
	makeLogDays  = sql.Named("queue/log_days")
	wakeDue      = sql.Named("queue/wake_due")
	expireQueued = sql.Named("queue/expire_queued")
)

// DoChores does what the last look found due for all workers: it queues parked runs whose time has come, ends queued runs that waited too
// long, and makes partitions for logs. It also puts away claims of this session that it cannot read. It returns how many runs it queued.
// Call it after each Look; where nothing is due it sends nothing.
//
// A chore may wait for a lock that an application holds. It has the connection for looks meanwhile, and looks go over another one.
func (s *Session) DoChores(ctx context.Context) (queued int, err error) {
	err = s.alone(ctx, s.janitor.working, func() (err error) {
		queued, err = s.janitor.work(ctx)
		return err
	})
	s.store.meter.requeued(0, queued)
	if err != nil {
		return queued, fmt.Errorf("do chores: %w", err)
	}
	return queued, nil
}

// chores are what looks find to be done for all workers.
type chores struct {
	wakes, expires, logDays bool
}

// janitor does chores. Its fields belong to the call that has the token of working.
type janitor struct {
	worker *Worker
	conn   *link // of the lookout
	held   *claimSet
	x      *exchange

	working chan struct{} // holds one token
}

func newJanitor(s *Session, conn *link, x *exchange) *janitor {
	return &janitor{worker: &s.worker, conn: conn, held: s.held, x: x, working: newToken()}
}

// work does all chores, also after one that failed.
func (j *janitor) work(ctx context.Context) (woken int, err error) {
	due := j.x.takeChores()
	var errs []error
	if due.wakes {
		if woken, err = j.count(ctx, wakeDue, choreBatch); err != nil {
			errs = append(errs, fmt.Errorf("wake parked runs: %w", err))
		}
	}
	if due.expires {
		if _, err := j.count(ctx, expireQueued, choreBatch); err != nil {
			errs = append(errs, fmt.Errorf("end runs that waited too long: %w", err))
		}
	}
	if due.logDays {
		if _, err := j.count(ctx, makeLogDays, logDaysAhead); err != nil {
			j.x.addChores(chores{logDays: true}) // looks find the others again
			errs = append(errs, fmt.Errorf("make room for logs: %w", err))
		}
	}
	return woken, errors.Join(append(errs, j.releaseUnreadable(ctx))...)
}

// count sends a statement with a bound, and returns the number that it answers.
func (j *janitor) count(ctx context.Context, statement string, most int) (n int, err error) {
	err = j.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, statement, most).Scan(&n)
	})
	return n, err
}
