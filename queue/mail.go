package queue

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// namesOf are claims as two arrays.
func namesOf(claims []*Claim) pgx.StrictNamedArgs {
	runs, ids := make([]int64, len(claims)), make([]uuid.UUID, len(claims))
	for i, c := range claims {
		runs[i], ids[i] = int64(c.Run), c.ID
	}
	return pgx.StrictNamedArgs{"runs": runs, "claims": ids}
}

// mailRow is a control of a run, or the run alone.
type mailRow struct {
	run        RunID
	inbox      int64
	id         *int64
	verb       *string
	step, item string
	args       []byte
	by         *string
	at         *time.Time
}

func (r *mailRow) into(box *Mailbox) error {
	box.Inbox = r.inbox
	if r.id == nil {
		return nil
	}
	verb, err := dagrun.ParseVerb(*r.verb)
	if err != nil {
		return fmt.Errorf("control %d: %w", *r.id, err)
	}
	box.Controls = append(box.Controls, Control{
		ID: *r.id, Run: r.run, Verb: verb, Step: r.step, Item: r.item, Args: json.RawMessage(r.args), By: *r.by, At: *r.at,
	})
	return nil
}
