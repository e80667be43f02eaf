package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/sql"
)

// MaxApprovals bounds one call of Approvals.
const MaxApprovals = 1000

var (
	approvalsSQL        = sql.Named("queue/approvals")
	missingApproversSQL = sql.Named("queue/missing_approvers")
)

// Approvals reads the approvals that wait for a decision, the oldest first, at most so many: those that the user may decide,
// or with all everything that it may see.
func (s *Store) Approvals(ctx context.Context, all bool, most int) ([]Approval, error) {
	rows := min(most, MaxApprovals)
	approvals, err := list(ctx, s, approvalsSQL, pgx.StrictNamedArgs{"all": all, "rows": rows}, scanApproval)
	return approvals, said("read approvals", err)
}

func scanApproval(row pgx.CollectableRow) (a Approval, err error) {
	var inputs []byte
	err = row.Scan(&a.Run, &a.DAG, &a.Step, (*zeronull.Text)(&a.Item), &a.Prompt, &inputs, &a.Approvers, &a.MayDecide, &a.SubmittedBy,
		&a.Since, (*zeronull.Timestamptz)(&a.Deadline))
	if err == nil {
		err = json.Unmarshal(inputs, &a.Inputs)
	}
	return a, err
}

// MissingApprovers are roles that a step names as approvers and that do not exist.
type MissingApprovers struct {
	DAG   string
	Step  string
	Roles []string
	Alone bool // an approval of the step names no role that exists
}

// MissingApprovers finds such steps in the current versions of DAGs, at most 100. For readers and workers.
func (s *Store) MissingApprovers(ctx context.Context, dags []string) ([]MissingApprovers, error) {
	missing, err := list(ctx, s, missingApproversSQL, pgx.StrictNamedArgs{"dags": dags}, pgx.RowToStructByPos[MissingApprovers])
	return missing, said("look for approvers", err)
}

// decodeQuestion reads the approval of a task_status, nil for none.
func decodeQuestion(raw []byte) (*Question, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var stored struct {
		Prompt    string     `json:"prompt"`
		Inputs    []Input    `json:"inputs"`
		Approvers []string   `json:"approvers"`
		MayDecide bool       `json:"may_decide"`
		Since     time.Time  `json:"since"`
		Deadline  *time.Time `json:"deadline"`
	}
	if err := json.Unmarshal(raw, &stored); err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	return &Question{
		Prompt: stored.Prompt, Inputs: stored.Inputs, Approvers: stored.Approvers, MayDecide: stored.MayDecide,
		Since: stored.Since, Deadline: orZero(stored.Deadline),
	}, nil
}
