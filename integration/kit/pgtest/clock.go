package pgtest

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// MakeClockStep has clock_timestamp, statement_timestamp and now in a database obey StepClock, for all sessions that begin
// afterwards and this one. CURRENT_TIMESTAMP stays the server's. The connection must be a superuser's.
func MakeClockStep(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.PgConn().Exec(ctx, statement("clock")).ReadAll(); err != nil {
		return fmt.Errorf("replace the clock: %w", err)
	}
	return nil
}

// StepClock sets by how much a database's clock is ahead of the server's, to the millisecond. It fails where statements do not see that.
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
