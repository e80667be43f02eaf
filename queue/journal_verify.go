package queue

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var verifyClaims = sql.Named("queue/verify")

// takeUp is what comes first on every connection but the first. An older flush must not land any more; then nothing is
// believed that the database does not confirm, since it may be another server than before.
func (j *journal) takeUp(ctx context.Context, conn *pgx.Conn) error {
	if err := j.link.endFormer(ctx, conn); err != nil {
		return err
	}
	return j.verify(ctx, conn)
}

// claimed is what the database knows of a claim.
type claimed struct {
	N          int
	Ours       bool
	Free       bool // nobody has the run
	Epoch      int
	Generation int
	State      string
	Seq        int64 // highest of our epoch
	Fenced     bool
}

func (j *journal) verify(ctx context.Context, conn *pgx.Conn) error {
	all := j.held.all()
	runs, claims, epochs := make([]int64, len(all)), make([]uuid.UUID, len(all)), make([]int, len(all))
	for i, held := range all {
		runs[i], claims[i], epochs[i] = int64(held.claim.Run), held.claim.ID, held.claim.Epoch
	}
	rows, err := conn.Query(ctx, verifyClaims, pgx.StrictNamedArgs{"worker": j.worker, "runs": runs, "claims": claims, "epochs": epochs})
	if err != nil {
		return fmt.Errorf("verify claims: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[claimed])
	if err != nil {
		return fmt.Errorf("verify claims: %w", err)
	}
	flying := map[*heldClaim]*piece{}
	for _, p := range j.flying {
		flying[p.entry.held] = p
	}
	for i := range found {
		j.reconcile(all[found[i].N-1], flying[all[found[i].N-1]], &found[i])
	}
	return nil
}

// reconcile decides about a claim, and about the piece of it whose outcome was unknown, if there is one.
func (j *journal) reconcile(held *heldClaim, p *piece, db *claimed) {
	switch {
	case db.Ours && db.Seq >= held.acked:
		// still ours, and what was acknowledged is there
	case p != nil && !p.settled && p.last && p.entry.ends() && db.shows(p):
		p.settle(nil)
	default:
		j.held.forfeit(held.claim)
		if db.Ours {
			j.doubt() // the database still has it
		}
		if p != nil && !p.settled {
			p.settle(ErrLeaseLost)
		}
	}
}

// shows says whether the flush that gave this claim back was written after all. While our fence is there nobody else
// takes a claim away; only a failover may have lost it, and then what was acknowledged is missing too.
func (db *claimed) shows(p *piece) bool {
	claim := p.entry.batch.Claim
	if v := p.entry.batch.Result; v != nil {
		return db.Epoch >= claim.Epoch && db.Generation > generation(p) || db.Epoch == claim.Epoch && db.State == v.State.String()
	}
	if !db.Fenced {
		return false
	}
	return db.Epoch > claim.Epoch || db.Epoch == claim.Epoch && db.Free && db.Seq >= max(p.entry.held.acked, p.highest())
}

// generation is the one that a piece ends.
func generation(p *piece) int {
	if rec := p.entry.batch.Records.Run; rec != nil && rec.Generation > 0 {
		return rec.Generation
	}
	return max(p.entry.batch.Claim.Row.Generation, 1)
}
