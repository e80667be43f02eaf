package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

// Errors that callers branch on. Errors of this package wrap them.
var (
	// ErrNotFound means that there is no such run, DAG, worker or step, or that the user may not see it.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that something else is stored already: another request with the same run_key, or another log chunk.
	ErrConflict = errors.New("conflict")
	// ErrLeaseLost means that the claim, or the whole session, no longer belongs to the worker. Nothing was written.
	ErrLeaseLost = errors.New("lease lost")
	// ErrInboxMoved means that the driver has not read all controls. Nothing was written: ReadMail, Step and Commit again.
	ErrInboxMoved = errors.New("inbox moved")
	// ErrRefused means that the database cannot take a record of this run. The run was ended as failed, with reason "internal:
	// …".
	ErrRefused = errors.New("record refused")
	// ErrNoGrants means that the user has a role of Oarlock, but this database grants that role nothing. `oarlock migrate roles`
	// mends it.
	ErrNoGrants = errors.New("no grants")
	// ErrClosed means that the Store or Session was closed.
	ErrClosed = errors.New("closed")
	// ErrPooled means that a pooler lends the worker's connections per transaction. Config.Direct must lead past the pooler.
	ErrPooled = pglink.ErrPooled
	// ErrWaiting means that a pooler has no free connection, or that a database has too few for a worker.
	ErrWaiting = pglink.ErrWaiting
	// ErrUnknown means that a write may or may not have happened. The caller must treat it as possibly applied.
	ErrUnknown = pglink.ErrUnknown
)

// Error is a refusal by the database with a hint for the user.
type Error struct {
	Code    string // SQLSTATE: OA… is listed in the view oarlock.error_codes
	Message string
	Hint    string // what to do
	Detail  string
	Object  string // table of the object that does not exist: runs, queues; "": the error is about none of these
	is      error  // the sentinel that the error wraps; nil: none
	cause   error  // the driver's error, for errors.As
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("%s (%s)", e.Message, e.Code)
	}
	return fmt.Sprintf("%s (%s): %s", e.Message, e.Code, e.Hint)
}

// Is reports whether the error is of the kind of target, such as ErrNotFound.
func (e *Error) Is(target error) bool { return e.is != nil && e.is == target }

func (e *Error) Unwrap() error { return e.cause }

// Passing reports whether err says nothing about the request itself, because the database was away, too busy, or did not answer
// in time. Another try may succeed.
func Passing(err error) bool {
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrClosed) {
		return false
	}
	switch pglink.Classify(err) {
	case pglink.NotExecuted, pglink.Aborted, pglink.SessionLost, pglink.WrongNode, pglink.Degraded:
		return true
	case pglink.OK, pglink.Permanent:
	}
	return errors.Is(err, ErrUnknown)
}

// serverErrors has the SQLSTATEs that mean more here than to Postgres: the sentinel that callers branch on, or the hint for the user
// where the server's says less. A removed DAG counts as not found, because the same step mends it.
var serverErrors = map[string]struct {
	is   error
	hint string
}{
	"OA001": {is: ErrNotFound}, // no such DAG
	"OA002": {is: ErrNotFound}, // removed DAG
	"OA004": {is: ErrConflict}, // run_key of another request
	"OA007": {is: ErrNotFound}, // no such run, or a run of another submitter
	"OA016": {is: ErrNotFound}, // no such schedule, or a schedule of another owner

	insufficientPrivilege: {hint: "have an administrator grant %s to this user"},

	"3F000": {hint: noSchema},
	"42P01": {hint: noSchema},
	"42883": {hint: noSchema},
	"40001": {hint: "another transaction was faster: run your transaction again, from its BEGIN"},
	"40P01": {hint: "another transaction was in the way: run your transaction again, from its BEGIN"},
	"22P05": {hint: `Postgres cannot store the character \u0000: remove this character`},
	"22021": {hint: "texts must be in UTF-8 and must not contain NUL"},
}

const noSchema = "the database has no Oarlock schema, or a schema of another version: run `oarlock migrate status`"

// roles that operations need, other than oarlock_submit
var roles = map[string]string{
	"put a dag": roleAdmin, "set a dag": roleAdmin, "set a queue": roleAdmin, "drain a worker": roleAdmin, "prune": roleAdmin,
	"set a pool": roleAdmin, "close a pool": roleAdmin, "open a pool": roleAdmin, "remove a pool": roleAdmin,
	"list dags": roleRead, "list versions": roleRead, "get a dag": roleRead, "list queues": roleRead, "look for approvers": roleRead, "list workers": roleRead,
	"list pools": roleRead, "list keys": roleRead, "list permits": roleRead,
	"scale": roleRead, "count steps": roleRead, "count runs": roleRead,
	"count what is past its retention": roleRead,
	"read approvals":                   roleApprove, "approve": roleApprove, "reject": roleApprove,
}

const (
	roleSubmit  = "oarlock_submit"
	roleWorker  = "oarlock_worker"
	roleRead    = "oarlock_read"
	roleApprove = "oarlock_approve"
	roleAdmin   = "oarlock_admin"
)

// wrapError wraps err with the name of the operation. It turns a server's error into an *Error with a hint.
func wrapError(op string, err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	var known *Error
	if errors.As(err, &pg) && !errors.As(err, &known) {
		err = refusal(op, pg)
	}
	return fmt.Errorf("%s: %w", op, err)
}

const insufficientPrivilege = "42501"

var memberSQL = sql.Named("queue/member")

// wrapPermissionError turns the refusal of a user into an error that names the missing role, and returns any other error as it is.
// If the user has that role, or another one that suffices, it returns an ErrNoGrants, because the database grants the role nothing.
// A refused connection is returned as it is, because roles of Oarlock play no part in it.
func wrapPermissionError(ctx context.Context, pool *pgxpool.Pool, err error, what, role string, others ...string) error {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	if !errors.As(err, &pg) || pg.Code != insufficientPrivilege || errors.As(err, &connect) {
		return err
	}
	user, member := pool.Config().ConnConfig.User, false
	if asked := pool.QueryRow(ctx, memberSQL, pgx.QueryExecModeExec, append(others, role)).Scan(&member); asked == nil && member {
		return &Error{
			Code: pg.Code, Message: fmt.Sprintf("this database grants no rights to the roles of user %s: %s", user, pg.Message),
			Hint: "have an administrator run `oarlock migrate roles` for this database", Detail: pg.Detail, is: ErrNoGrants, cause: pg,
		}
	}
	return &Error{
		Code: pg.Code, Message: fmt.Sprintf("user %s %s: %s", user, what, pg.Message),
		Hint: fmt.Sprintf(serverErrors[pg.Code].hint, role), Detail: pg.Detail, cause: pg,
	}
}

func refusal(op string, pg *pgconn.PgError) *Error {
	ours, hint := serverErrors[pg.Code], pg.Hint
	if ours.hint != "" && (hint == "" || pg.Code[:2] == "42") {
		hint = ours.hint
	}
	if pg.Code == insufficientPrivilege {
		verb, _, asked := strings.Cut(op, " run ") // op has the form that Ask.op gives it: approve run 41
		role, ok := roles[verb]
		if !ok {
			role = roleSubmit
		}
		hint = fmt.Sprintf(hint, role)
		if asked && !ok {
			hint += " for its own runs, or " + roleAdmin + " for any"
		}
	}
	object := ""
	if strings.HasPrefix(pg.Code, "OA") { // else Postgres names the table of a constraint
		object = pg.TableName
	}
	return &Error{Code: pg.Code, Message: pg.Message, Hint: hint, Detail: pg.Detail, Object: object, is: ours.is, cause: pg}
}
