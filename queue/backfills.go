package queue

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	backfillSQL      = sql.Named("queue/backfill")
	backfillTimesSQL = sql.Named("queue/backfill_times")
)

// Backfill asks for runs of times of a schedule that are past.
type Backfill struct {
	Of          ScheduleKey
	From, Until time.Time
	AtOnce      int    // how many of its runs may be unfinished; 0: 1
	Reprocess   string // missing, failed or all; "": missing
	NewestFirst bool
	Params      map[string]any // merged over the schedule's
}

// BackfillState is what a backfill has besides what every schedule has.
type BackfillState struct {
	Of          int64 // number of its schedule
	From, Until time.Time
	Reprocess   string // missing, failed or all
	NewestFirst bool
	DecidedAt   time.Time // all times up to it are decided; with NewestFirst all from it on
}

// BackfillTime is what a backfill would do with a time.
type BackfillTime struct {
	LogicalAt time.Time
	Outcome   string // fires, skipped
	Run       RunID  // the reason why it is skipped; 0: none
	Reason    string
}

// Backfill makes a backfill, and returns its number N: it is a schedule called NAME#N, of which all is true that is true of
// schedules. Its runs stand below live ones. A lost reply is ErrUnknown.
func (s *Store) Backfill(ctx context.Context, b *Backfill) (id int64, err error) {
	const op = "backfill"
	var merged any
	if b.Params != nil {
		merged = b.Params
	}
	params, err := jsonText("params", merged)
	if err != nil {
		return 0, said(op, err)
	}
	args := b.args()
	args["at_once"], args["params"] = given(b.AtOnce), params
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, backfillSQL, args).Scan(&id)
	}
	return id, said(op, s.write(ctx, askTimeout, do, unknown("look among the schedules of the DAG before you ask again")))
}

// BackfillTimes reads what a backfill would do with each of its times as things are now, up to limit of them, 1 to 1,000, in its
// order. It does nothing.
func (s *Store) BackfillTimes(ctx context.Context, b *Backfill, limit int) ([]BackfillTime, error) {
	args := b.args()
	args["rows"] = limit
	times, err := list(ctx, s, backfillTimesSQL, args, pgx.RowToStructByPos[BackfillTime])
	return times, said("list times of a backfill", err)
}

func (b *Backfill) args() pgx.StrictNamedArgs {
	return b.Of.args(pgx.StrictNamedArgs{
		"from_at": moment(b.From), "until_at": moment(b.Until), "reprocess": given(b.Reprocess), "newest_first": b.NewestFirst,
	})
}
