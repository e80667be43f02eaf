package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/sql"
)

var renewLease = sql.Named("queue/renew")

// Renew shows that the worker is alive, and brings what is wanted of it. busy is the number of slots in use, waiting that of tasks
// that wait for one: for people and scalers. After ErrLeaseLost the session does nothing more.
func (s *Session) Renew(ctx context.Context, busy, waiting int) (Renewal, error) {
	if err := s.end.get(); err != nil {
		return Renewal{}, err
	}
	sent := boottime.Now()
	count, hash := s.held.sum()
	a, err := s.askRenewal(ctx, busy, waiting)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Renewal{}, s.lost()
	case err != nil:
		return Renewal{}, fmt.Errorf("renew: %w", err)
	}
	s.beat.renewed(sent)
	count2, hash2 := s.held.sum()
	if s.beat.compared(a.count == count && a.hash == hash || a.count == count2 && a.hash == hash2) {
		s.sweeps.doubt()
	}
	return a.renewal(), nil
}

// Deadline says until when the lease holds, by boottime.Now: at soft what the worker runs is to be killed, at hard all of
// it must be dead.
func (s *Session) Deadline() (soft, hard time.Duration) { return s.beat.deadline() }

// renewalRow is the answer to a renewal.
type renewalRow struct {
	now     time.Time
	desired string
	count   int
	hash    int64
	runs    []RunID
	inboxes []int64
}

func (s *Session) renewArgs(busy, waiting int) pgx.StrictNamedArgs {
	held := s.held.runs()
	return pgx.StrictNamedArgs{"worker": s.worker.ID, "busy": busy, "waiting": waiting, "runs": len(held), "held": held}
}

func (s *Session) askRenewal(ctx context.Context, busy, waiting int) (*renewalRow, error) {
	var a renewalRow
	err := s.lease.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, renewLease, s.renewArgs(busy, waiting)).Scan(&a.now, &a.desired, &a.count, &a.hash, &a.runs, &a.inboxes)
	})
	return &a, err
}

func (a *renewalRow) renewal() Renewal {
	r := Renewal{Now: dagrun.Time(a.now.UnixMilli()), Desired: WorkerState(a.desired)}
	for i, run := range a.runs {
		r.Mail = append(r.Mail, Mail{Run: run, Inbox: a.inboxes[i]})
	}
	return r
}
