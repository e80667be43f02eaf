package queue

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var rightsSQL = sql.Named("queue/rights")

// Rights are what the database lets a login do. What it may not, a page need not offer; the database decides each time all the same.
type Rights struct {
	Login   string
	Read    bool // see all runs, DAGs, queues and workers
	Submit  bool // ask for runs, and steer its own
	Approve bool // decide the approvals that wait for it
	Admin   bool // steer all runs, DAGs, queues and workers
	Work    bool // drive runs
	Names   bool // say for whom it asks, see WithActor
}

// Steers reports whether the login may steer what owner has: a run that it submitted, a schedule. "" is nobody's own.
func (r Rights) Steers(owner string) bool {
	return r.Admin || r.Submit && owner != "" && owner == r.Login
}

// Sees reports whether the login sees a run whole, by its submitter. Else it sees no more of it than an approver does.
func (r Rights) Sees(owner string) bool { return r.Read || owner == r.Login }

// OnlyApproves reports whether the login decides approvals and may neither see runs of others nor ask for its own.
func (r Rights) OnlyApproves() bool { return r.Approve && !r.Submit && !r.Read }

// Rights reads what the user may do.
func (s *Store) Rights(ctx context.Context) (Rights, error) {
	rights, err := one(ctx, s, rightsSQL, nil, pgx.RowToStructByPos[Rights])
	return rights, said("read rights", err)
}
