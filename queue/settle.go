package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var settleTask = sql.Named("queue/settle")

// SettleTx keeps the result of a task in the transaction of the task's own SQL, which makes both durable together. Call
// it as the last thing before COMMIT: from then on the transaction holds what a takeover of the run waits for. After
// the COMMIT the result goes to the core and through Commit as usual; if that does not come to pass, Load hands it to
// the next driver. On ErrLeaseLost, roll back: the attempt is no longer this worker's.
func (s *Session) SettleTx(ctx context.Context, tx pgx.Tx, r Settlement) error {
	var outputs any
	if r.Outputs != "" {
		outputs = string(r.Outputs)
	}
	tag, err := tx.Exec(ctx, settleTask, pgx.StrictNamedArgs{
		"worker": s.worker.ID, "run": r.Claim.Run, "claim": r.Claim.ID, "attempt": r.Attempt, "outputs": outputs,
		"step": r.Task.Step, "item": r.Task.Item, "alt": r.Task.Alt,
	})
	if err != nil {
		return fmt.Errorf("settle a task of run %d: %w", r.Claim.Run, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("settle a task of run %d: %w", r.Claim.Run, ErrLeaseLost)
	}
	return nil
}
