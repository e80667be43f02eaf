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

// Vitals are what a sign of life tells others of a worker.
type Vitals struct {
	Busy    int       // slots in use
	Waiting int       // tasks that wait for one
	Unfit   string    // why the worker claims nothing now, for people and without secrets; "": it claims
	Since   time.Time // when the worker became unfit
}

// Renew shows that the worker is alive, and brings what is wanted of it. After ErrLeaseLost the session does nothing more.
func (s *Session) Renew(ctx context.Context, v Vitals) (Renewal, error) {
	if err := s.end.get(); err != nil {
		return Renewal{}, err
	}
	sent := boottime.Now()
	count, hash := s.held.sum()
	a, err := s.askRenewal(ctx, v)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Renewal{}, s.lost()
	case err != nil:
		if Crowded(err) {
			s.makeRoom()
		}
		return Renewal{}, fmt.Errorf("renew: %w", err)
	}
	s.beat.renewed(sent)
	count2, hash2 := s.held.sum()
	if s.beat.compared(a.count == count && a.hash == hash || a.count == count2 && a.hash == hash2) {
		s.x.doubt()
	}
	return a.renewal(), nil
}

// makeRoom gives back the connections that no link may take, so that the next renewal finds one free: without it all of them go with
// the lease.
func (s *Session) makeRoom() {
	s.hearing.giveWay()
	if s.store.ownsPool {
		s.store.pool.Reset()
	}
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

func (s *Session) renewArgs(v Vitals) pgx.StrictNamedArgs {
	held := s.held.runs()
	args := pgx.StrictNamedArgs{
		"worker": s.worker.ID, "busy": v.Busy, "waiting": v.Waiting, "runs": len(held), "held": held, "unfit": "", "unfit_ms": 0,
	}
	if v.Unfit != "" {
		args["unfit"], args["unfit_ms"] = storableReason(v.Unfit), time.Since(v.Since).Milliseconds()
	}
	return args
}

func (s *Session) askRenewal(ctx context.Context, v Vitals) (*renewalRow, error) {
	var a renewalRow
	err := s.lease.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, renewLease, s.renewArgs(v)).Scan(&a.now, &a.desired, &a.count, &a.hash, &a.runs, &a.inboxes)
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
