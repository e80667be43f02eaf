package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Commit writes what a drive decided, all of it or nothing. It blocks until the outcome is known:
//
//   - nil: durable. Perform the actions. A batch with Leave or Result has given the claim back.
//   - ErrLeaseLost: the claim is gone. Kill what runs, forget the run.
//   - ErrInboxMoved: only of a batch that gives the claim back. ReadMail, Step, Commit again.
//   - ErrRefused: the database cannot take a record. The run was ended; kill what runs, forget it.
//   - ErrClosed: the session was closed. With ErrUnknown, the batch may have been written.
//   - ctx's error: only while the batch waited for its turn. Nothing was written.
//
// While the database is away it goes on trying, until the session is lost or closed. A claim has one Commit at a time:
// a second one meanwhile is an error. The batch must not be changed before Commit returns.
func (s *Session) Commit(ctx context.Context, b *Batch) error {
	if err := s.journal.commit(ctx, b); err != nil {
		return fmt.Errorf("commit run %d: %w", b.Claim.Run, err)
	}
	return nil
}

// Release gives a run back before its drive has committed anything. Where nothing had happened of it before, it is as if it had
// never been claimed, but for its epoch. It counts as no loss, and controls that came in the meantime stay for the next driver.
// waits says that its next task waits for a slot: a worker without a free one leaves it, so it is refused with ErrInboxMoved where
// something was asked since the claim. At wake something of it is due all the same; 0: nothing is. Other errors are as of Commit.
func (s *Session) Release(ctx context.Context, c *Claim, waits bool, wake dagrun.Time) error {
	if err := s.journal.release(ctx, c, waits, wake); err != nil {
		return fmt.Errorf("release run %d: %w", c.Run, err)
	}
	return nil
}

// Condemn ends a run that nobody can drive as failed, for this reason: its open tasks are canceled, what is asked of it is
// refused, who waits for it is told. Where Definition could not read its DAG, the next look puts it away for others: a program of a
// newer version may have written that DAG. Errors are as of Commit.
func (s *Session) Condemn(ctx context.Context, c *Claim, why error) error {
	if _, unread := errors.AsType[unreadableError](why); unread {
		s.x.addUnreadable(c, why)
		return nil
	}
	if err := s.journal.condemn(ctx, c, "internal: "+why.Error()); err != nil {
		return fmt.Errorf("condemn run %d: %w", c.Run, err)
	}
	return nil
}
