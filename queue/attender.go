package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// attendBatch bounds the items of one call: each is a subtransaction, and a snapshot has room for 64 of a transaction.
const attendBatch = 32

var attendAgenda = sql.Named("queue/attend")

// Attended is what came of an Attend.
type Attended struct {
	Decisions []Decision
	More      bool // there is more to do: attend again
}

// Decision is what became of an item of the agenda, or of fire times of a schedule.
type Decision struct {
	Kind     string // schedule, ended
	DAG      string // "" where the item was put off
	Schedule string // its name; of an item that was put off its number
	Outcome  string // fired, skipped, dropped, refused, waits, paused, ended (a backfill); put off, failed
	Times    int    // fire times
	Late     time.Duration
	Message  string
}

// Attend does what is due on the agenda: it fires schedules, and does what follows the end of their runs. Call it when a Look asks
// for it, when a run of a schedule has ended here, and again while there is more. Several workers share what is due.
func (s *Session) Attend(ctx context.Context) (Attended, error) {
	began := time.Now()
	done, err := s.attend(ctx)
	s.store.meter.attended(done, time.Since(began), err)
	if err != nil {
		return Attended{}, fmt.Errorf("attend to the agenda: %w", err)
	}
	return done, nil
}

func (s *Session) attend(ctx context.Context) (done Attended, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	args := pgx.StrictNamedArgs{"floor": orMinusInfinity(s.x.agendaFloor()), "batch": attendBatch}
	err = s.call(ctx, func(ctx context.Context, db caller) error {
		done = Attended{}
		rows, err := db.Query(ctx, attendAgenda, args)
		if err != nil {
			return err
		}
		var d Decision
		var late int64
		_, err = pgx.ForEachRow(rows, []any{&d.Kind, &d.DAG, &d.Schedule, &d.Outcome, &d.Times, &late, &d.Message}, func() error {
			if d.Kind == "more" {
				done.More = true
				return nil
			}
			d.Late = time.Duration(late) * time.Millisecond
			done.Decisions = append(done.Decisions, d)
			return nil
		})
		return err
	})
	return done, err
}
