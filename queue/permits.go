package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	callPermits = sql.Named("queue/permits")
	leaveAlone  = sql.Named("queue/leave_alone")
)

// Permit is the right to run one body that needs pools. The worker gives it a number, and keeps the number for as long as it wants
// the permit.
type Permit struct {
	Nth          int64
	Run          RunID // that asks for the permit, or used it last
	Priority     int   // of the run
	StepPriority int
	Held         bool // a task has the permit
	Pools        []dagrun.PoolUse
}

// PermitAnswer says what became of a Permit.
type PermitAnswer struct {
	Nth       int64
	Granted   bool
	Contested bool          // other workers wait for one of its pools
	Once      bool          // for one body only: a pool limits starts in a time, or is closed
	Wait      time.Duration // how long the rate of a pool lets the worker wait; 0: not known
	Reason    string        // for people, why it is not granted; "": it was asked for a moment ago
}

// ErrNoPermits is returned by Permits if the worker has no fence any more, or if a later call overtook this one.
var ErrNoPermits = errors.New("the database gives this worker no permits")

// Permits tells the database all permits that the worker keeps or wants, and returns which of them it has. A permit that is not
// named any more is given back. Call it again with the same permits after an error: the database then knows the rest. Calls must
// not overlap.
func (s *Session) Permits(ctx context.Context, all []Permit) (answers []PermitAnswer, err error) {
	began := time.Now()
	defer func() { s.store.meter.permitted(time.Since(began), err) }()
	wanted, err := json.Marshal(wantedRows(all))
	if err != nil {
		return nil, fmt.Errorf("permits: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	args := pgx.StrictNamedArgs{"worker": s.worker.ID, "call": s.permitCalls.Add(1), "wanted": string(wanted)}
	var answer []byte
	if err := s.call(ctx, func(ctx context.Context, db caller) error {
		return db.QueryRow(ctx, callPermits, args).Scan(&answer)
	}); err != nil {
		return nil, fmt.Errorf("permits: %w", err)
	}
	if answer == nil {
		return nil, ErrNoPermits
	}
	return permitAnswers(answer)
}

// wantedRow is a Permit as oarlock.permits reads it.
type wantedRow struct {
	Nth          int64     `json:"n"`
	Run          RunID     `json:"run"`
	Priority     int       `json:"priority"`
	StepPriority int       `json:"step_priority"`
	Held         bool      `json:"held"`
	Pools        []poolRow `json:"pools"`
}

type poolRow struct {
	Pool   string `json:"pool"`
	Key    string `json:"key"`
	Weight int    `json:"weight"`
}

func wantedRows(all []Permit) []wantedRow {
	rows := make([]wantedRow, len(all))
	for i, p := range all {
		rows[i] = wantedRow{p.Nth, p.Run, p.Priority, p.StepPriority, p.Held, make([]poolRow, len(p.Pools))}
		for k, use := range p.Pools {
			rows[i].Pools[k] = poolRow(use)
		}
	}
	return rows
}

func permitAnswers(answer []byte) ([]PermitAnswer, error) {
	var rows []struct {
		Nth       int64  `json:"n"`
		Granted   bool   `json:"granted"`
		Contested bool   `json:"contested"`
		Once      bool   `json:"once"`
		WaitMS    int64  `json:"wait_ms"`
		Reason    string `json:"reason"`
	}
	if err := json.Unmarshal(answer, &rows); err != nil {
		return nil, fmt.Errorf("permits: %w", err)
	}
	all := make([]PermitAnswer, len(rows))
	for i, r := range rows {
		all[i] = PermitAnswer{r.Nth, r.Granted, r.Contested, r.Once, time.Duration(r.WaitMS) * time.Millisecond, r.Reason}
	}
	return all, nil
}

// LeaveAlone closes pools for a while, because a service that a body of the run called wants no more requests. Of pools, it closes
// the keys in uses. It leaves pools alone that limit neither by rate nor by key: they protect something else than the service.
func (s *Session) LeaveAlone(ctx context.Context, run RunID, uses []dagrun.PoolUse, pause time.Duration) error {
	names, keys := make([]string, len(uses)), make([]string, len(uses))
	for i, use := range uses {
		names[i], keys[i] = use.Pool, use.Key
	}
	args := pgx.StrictNamedArgs{"run": run, "pools": names, "keys": keys, "pause": pause}
	err := s.call(ctx, func(ctx context.Context, db caller) error {
		return db.QueryRow(ctx, leaveAlone, args).Scan(nil)
	})
	if err != nil {
		return fmt.Errorf("close pools: %w", err)
	}
	return nil
}
