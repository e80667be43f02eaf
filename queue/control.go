package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/sql"
)

// askSQL holds the statement of each verb. A child's end is not among them: the end of the child run reports it, never a user.
var askSQL = map[dagrun.Verb]string{
	dagrun.VerbCancel:  sql.Named("queue/cancel"),
	dagrun.VerbPause:   sql.Named("queue/pause"),
	dagrun.VerbResume:  sql.Named("queue/resume"),
	dagrun.VerbRetry:   sql.Named("queue/retry"),
	dagrun.VerbApprove: sql.Named("queue/approve"),
	dagrun.VerbReject:  sql.Named("queue/reject"),
	dagrun.VerbMark:    sql.Named("queue/mark"),
}

var (
	controlStatusSQL = sql.Named("queue/control_status")
	controlFoundSQL  = sql.Named("queue/control_found")
)

// Control stores a request to a run, and returns it as a control. It does not wait for the driver's decision: without an Outcome
// in the answer, the run's driver has not decided yet, see AwaitControl. docs/sql-api.md explains the outcomes. A refusal is an
// outcome, not an error.
//
// If the reply is lost, Control looks for an equal control that the same user made since the call, and returns that one. If there
// is none, the outcome is unknown, and Control returns ErrUnknown.
func (s *Store) Control(ctx context.Context, a Ask) (Control, error) {
	statement, args, err := a.call()
	if err != nil {
		return Control{}, wrapError(a.op(), err)
	}
	var c Control
	do := func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		rows, _ := conn.Query(ctx, statement, args)
		c, err = pgx.CollectExactlyOneRow(rows, scanControl)
		return err
	}
	started := time.Now()
	again := func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		c, err = a.find(ctx, conn, time.Since(started)+clockMargin)
		return err
	}
	return c, wrapError(a.op(), s.write(ctx, askTimeout, do, again))
}

// find returns the newest control with the verb, step, item and arguments of a that the same user made at most since ago. Outputs
// that a leaves out may be in the control, as defaults. If there is none, it returns an *UnknownError. It does not send the request
// again: the first copy may still be on its way, and a second cancel means more than the first.
func (a *Ask) find(ctx context.Context, conn *pgxpool.Conn, since time.Duration) (Control, error) {
	details := a.details()
	outputs := []byte("{}")
	if details["outputs"] != nil {
		var err error
		if outputs, err = json.Marshal(details["outputs"]); err != nil {
			return Control{}, err
		}
	}
	// The database stores missing details as {}. The statement compares the outputs by itself, since the database may have
	// converted them.
	maps.DeleteFunc(details, func(name string, v any) bool { return v == nil || name == "outputs" })
	stored, err := json.Marshal(details)
	if err != nil {
		return Control{}, err
	}
	rows, _ := conn.Query(ctx, controlFoundSQL, pgx.StrictNamedArgs{
		"run": a.Run, "verb": a.Verb.String(), "step": given(a.Step), "item": given(a.Item), "args": string(stored), "outputs": string(outputs), "since": since,
	})
	c, err := pgx.CollectExactlyOneRow(rows, scanControl)
	if errors.Is(err, pgx.ErrNoRows) {
		err = &UnknownError{"look for the request in the run's controls before you repeat the request: a second cancel skips handlers"}
	}
	return c, err
}

// AwaitControl waits until a control is decided, and returns it with its outcome. It reads the control at growing intervals. It
// returns c at once if c is decided already. After an error, or when ctx ends, it returns the error.
func (s *Store) AwaitControl(ctx context.Context, c Control) (Control, error) {
	const op = "await a control"
	pauses := pollPauses()
	for c.DecidedAt.IsZero() {
		var err error
		if c, err = s.ControlStatus(ctx, c.ID); err != nil {
			return c, wrapError(op, err)
		}
		if !c.DecidedAt.IsZero() {
			break
		}
		select {
		case <-ctx.Done():
			return c, wrapError(op, ctx.Err())
		case <-time.After(pauses.NextBackOff()):
		}
	}
	return c, nil
}

// pollPauses returns the pauses of AwaitControl. They grow from 10 ms, which a person does not notice, to about a second, which
// costs the database little. They never end.
func pollPauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.MaxInterval = 10*time.Millisecond, 2, 800*time.Millisecond // + 20 %
	b.RandomizationFactor = 0.2
	return b
}

// ControlStatus reads a control and its outcome. It does not wait for a decision. It returns ErrNotFound if there is no such
// control, or if the user is not allowed to see it.
func (s *Store) ControlStatus(ctx context.Context, id int64) (Control, error) {
	c, err := one(ctx, s, controlStatusSQL, pgx.StrictNamedArgs{"control": id}, scanControl)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("there is no control %d, or it is not yours: %w", id, ErrNotFound)
	}
	return c, wrapError("read a control", err)
}

func (a *Ask) op() string { return fmt.Sprintf("%s run %d", a.Verb, a.Run) }

// call returns the statement of a's verb, and its arguments. It returns an error for a verb that a user cannot request, and for
// outputs that cannot be written as JSON.
func (a *Ask) call() (string, pgx.StrictNamedArgs, error) {
	statement, ok := askSQL[a.Verb]
	if !ok {
		return "", nil, fmt.Errorf("%s is nothing that a run can be asked for", a.Verb)
	}
	args := pgx.StrictNamedArgs{"run": a.Run, "step": given(a.Step), "item": given(a.Item)}
	maps.Copy(args, a.details())
	if outputs, ok := args["outputs"]; ok {
		text, err := jsonText("outputs", outputs)
		if err != nil {
			return "", nil, err
		}
		args["outputs"] = text
	}
	return statement, args, nil
}

// details returns the arguments of a's verb except run, step and item. Its keys are the names that statements and stored controls
// use.
func (a *Ask) details() map[string]any {
	switch a.Verb {
	case dagrun.VerbCancel:
		return map[string]any{"now": a.Now}
	case dagrun.VerbRetry:
		return map[string]any{"mode": a.Mode.String()}
	case dagrun.VerbApprove:
		return map[string]any{"outputs": a.Outputs}
	case dagrun.VerbReject:
		return map[string]any{"reason": a.Reason}
	case dagrun.VerbMark:
		return map[string]any{"as": a.As.String(), "outputs": a.Outputs}
	default:
		return map[string]any{}
	}
}

func scanControl(row pgx.CollectableRow) (c Control, err error) {
	var verb string
	var args json.RawMessage
	err = row.Scan(&c.ID, &c.Run, &verb, (*zeronull.Text)(&c.Step), (*zeronull.Text)(&c.Item), &args, &c.By, &c.At,
		(*zeronull.Timestamptz)(&c.DecidedAt), (*zeronull.Text)(&c.Outcome), (*zeronull.Text)(&c.State), (*zeronull.Text)(&c.Message))
	if err == nil {
		c.Args = args
		c.Verb, err = dagrun.ParseVerb(verb)
	}
	return c, err
}

// MaxApprovals bounds one call of Approvals.
const MaxApprovals = 1000

var (
	approvalsSQL        = sql.Named("queue/approvals")
	missingApproversSQL = sql.Named("queue/missing_approvers")
)

// Approvals reads approvals that wait for a decision, oldest first, up to most and MaxApprovals. It returns the approvals that
// the user is allowed to decide, or, with all, every approval that the user is allowed to see.
func (s *Store) Approvals(ctx context.Context, all bool, most int) ([]Approval, error) {
	rows := min(most, MaxApprovals)
	approvals, err := list(ctx, s, approvalsSQL, pgx.StrictNamedArgs{"all": all, "rows": rows}, scanApproval)
	return approvals, wrapError("read approvals", err)
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

// MissingApprovers is a step that names roles as approvers that do not exist.
type MissingApprovers struct {
	DAG   string
	Step  string
	Roles []string
	Alone bool // an approval of the step names no existing role at all
}

// MissingApprovers finds steps that name missing roles as approvers, in the current versions of the given DAGs; nil: of all DAGs.
// It leaves out removed DAGs, and returns at most 100 steps, sorted by DAG and step. For readers and workers.
func (s *Store) MissingApprovers(ctx context.Context, dags []string) ([]MissingApprovers, error) {
	missing, err := list(ctx, s, missingApproversSQL, pgx.StrictNamedArgs{"dags": dags}, pgx.RowToStructByPos[MissingApprovers])
	return missing, wrapError("look for approvers", err)
}

// decodeQuestion decodes the approval of a task_status. It returns nil if there is none.
func decodeQuestion(raw []byte) (*Question, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var stored struct {
		Prompt    string          `json:"prompt"`
		Inputs    []dagspec.Param `json:"inputs"`
		Approvers []string        `json:"approvers"`
		MayDecide bool            `json:"may_decide"`
		Since     time.Time       `json:"since"`
		Deadline  *time.Time      `json:"deadline"`
	}
	if err := json.Unmarshal(raw, &stored); err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	return &Question{
		Prompt: stored.Prompt, Inputs: stored.Inputs, Approvers: stored.Approvers, MayDecide: stored.MayDecide,
		Since: stored.Since, Deadline: orZero(stored.Deadline),
	}, nil
}
