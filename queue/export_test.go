package queue

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// SetClock has the session count others' silence, floors and chores by another clock.
func (s *Session) SetClock(now func() time.Duration) {
	s.peers.now, s.lanes.now, s.chores.now = now, now, now
}

// Unread is how many claims a poll may have made whose reply was lost.
func (s *Session) Unread() int { return len(s.unread) }

// OnClaims uses the connection that polls.
func (s *Session) OnClaims(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return s.claims.use(ctx, do)
}

// PollStatement is the next poll, as it is sent; a whole one looks at everything.
func (s *Session) PollStatement(want int, whole bool) (string, pgx.StrictNamedArgs) {
	return s.pollStatement(s.lanes.order(), newClaimIDs(want), claimBytes, 0, whole)
}

// RenewStatement is the next renewal, as it is sent; a whole one counts all that the database says the worker holds.
func (s *Session) RenewStatement(whole bool) (string, pgx.StrictNamedArgs) {
	return renewLease, s.renewArgs(1, s.held.runs(), whole)
}

// SetCloseLimit bounds a Close without a deadline.
func (s *Session) SetCloseLimit(d time.Duration) { s.closeLimit = d }

// Own is a connection as a session makes them.
func (s *Store) Own(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, s.connConfig("test"))
}

// Steady is how the connection that polls is set up.
func Steady(c *pgx.ConnConfig) *pgx.ConnConfig { return steady(c) }
