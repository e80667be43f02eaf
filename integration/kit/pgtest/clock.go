package pgtest

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// MakeClockStep makes clock_timestamp, statement_timestamp and now of a database obey StepClock, for this session and all
// later ones. CURRENT_TIMESTAMP stays the server's. The connection must be a superuser's.
func MakeClockStep(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.PgConn().Exec(ctx, statement("clock")).ReadAll(); err != nil {
		return fmt.Errorf("replace the clock: %w", err)
	}
	return nil
}

// StepClock sets how far a database's clock is ahead of the server's, to the millisecond. It returns an error if
// statements do not see the new time.
func StepClock(ctx context.Context, conn *pgx.Conn, ahead time.Duration) error {
	if _, err := conn.Exec(ctx, statement("clock_step"), ahead.Milliseconds()); err != nil {
		return fmt.Errorf("step the clock: %w", err)
	}
	var seen *int64 // nil: the functions disagree
	if err := conn.QueryRow(ctx, statement("clock_ahead")).Scan(&seen); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	if seen == nil || *seen != ahead.Milliseconds() {
		return fmt.Errorf("step the clock: it is stepped by %v, and statements do not see it", ahead)
	}
	return nil
}
