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

// What callers branch on. Errors of this package wrap them.
var (
	// ErrNotFound: there is no such run, DAG, worker or step, or it is not yours to see.
	ErrNotFound = errors.New("not found")
	// ErrConflict: what is there already differs from what was given (a run_key for another request, a log chunk).
	ErrConflict = errors.New("conflict")
	// ErrLeaseLost: the claim, or the whole session, is no longer the worker's. Nothing was written.
	ErrLeaseLost = errors.New("lease lost")
	// ErrInboxMoved: there are controls the driver has not read. Nothing was written: ReadMail, Step, Commit again.
	ErrInboxMoved = errors.New("inbox moved")
	// ErrRefused: the database cannot take a record of this run. The run was ended as failed, reason "internal: …".
	ErrRefused = errors.New("record refused")
	// ErrNoGrants: the user has a role of Oarlock, and this database grants it nothing: `oarlock migrate roles` does.
	ErrNoGrants = errors.New("no grants")
	// ErrClosed: the Store or Session was closed.
	ErrClosed = errors.New("closed")
	// ErrPooled: a pooler lends the worker's connections by the transaction. Config.Direct has to lead past it.
	ErrPooled = pglink.ErrPooled
	// ErrWaiting: a pooler has no connection free, or a database too few for a worker.
	ErrWaiting = pglink.ErrWaiting
	// ErrUnknown: nobody knows whether a write happened. Treat it as "maybe applied".
	ErrUnknown = pglink.ErrUnknown
)

// Error is a refusal by the database that a person can act on.
type Error struct {
	Code    string // SQLSTATE: OA… is listed in the view oarlock.error_codes
	Message string
	Hint    string // what to do about it
	Detail  string
	is      error // the sentinel it counts as, if any
	cause   error // what the driver said, for errors.As
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("%s (%s)", e.Message, e.Code)
	}
	return fmt.Sprintf("%s (%s): %s", e.Message, e.Code, e.Hint)
}

// Is makes errors.Is(err, ErrNotFound) and its like work.
func (e *Error) Is(target error) bool { return e.is != nil && e.is == target }

func (e *Error) Unwrap() error { return e.cause }

// Passing tells of an error that says nothing about what was asked: the database was away, too busy, or did not answer in
// time. Asking again may help.
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

// sentinels of our own SQLSTATEs. A removed DAG counts as not found: what mends it is the same.
var sentinels = map[string]error{
	"OA001": ErrNotFound, // no such DAG
	"OA002": ErrNotFound, // removed DAG
	"OA004": ErrConflict, // run_key of another request
	"OA007": ErrNotFound, // no such run, or somebody else's
	"OA016": ErrNotFound, // no such schedule, or somebody else's
}

// hints of SQLSTATEs that Postgres raises by itself, and that a person meets here.
var hints = map[string]string{
	"42501": "have an administrator grant %s to this user",
	"3F000": noSchema, "42P01": noSchema, "42883": noSchema,
	"40001": "another transaction was faster: run this one again, from its BEGIN",
	"40P01": "another transaction was in the way: run this one again, from its BEGIN",
	"22P05": `the character \u0000 has no place in Postgres: leave it out`,
	"22021": "texts must be UTF-8 without NUL",
}

const noSchema = "the database has no Oarlock schema, or one of another version: run `oarlock migrate status`"

// roles that operations want, other than oarlock_submit.
var roles = map[string]string{
	"put a dag": roleAdmin, "set a dag": roleAdmin, "set a queue": roleAdmin, "drain a worker": roleAdmin, "prune": roleAdmin,
	"list dags": roleRead, "list versions": roleRead, "get a dag": roleRead, "list queues": roleRead, "look for approvers": roleRead, "list workers": roleRead,
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

// said names the operation that failed, and makes an *Error of what the server said, with a hint that says what to do.
func said(op string, err error) error {
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

// lacks names the role that a user lacks who was refused, and leaves every other error alone. Of a user who has that role, or another that
// would do, it says with ErrNoGrants that the database grants it nothing. A refused connection is not about a role of ours.
func lacks(ctx context.Context, pool *pgxpool.Pool, err error, what, role string, others ...string) error {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	if !errors.As(err, &pg) || pg.Code != insufficientPrivilege || errors.As(err, &connect) {
		return err
	}
	user, member := pool.Config().ConnConfig.User, false
	if asked := pool.QueryRow(ctx, memberSQL, pgx.QueryExecModeExec, append(others, role)).Scan(&member); asked == nil && member {
		return &Error{
			Code: pg.Code, Message: fmt.Sprintf("this database grants the roles of user %s nothing: %s", user, pg.Message),
			Hint: "have an administrator run `oarlock migrate roles` for this database", Detail: pg.Detail, is: ErrNoGrants, cause: pg,
		}
	}
	return &Error{
		Code: pg.Code, Message: fmt.Sprintf("user %s %s: %s", user, what, pg.Message),
		Hint: fmt.Sprintf(hints[pg.Code], role), Detail: pg.Detail, cause: pg,
	}
}

func refusal(op string, pg *pgconn.PgError) *Error {
	hint := pg.Hint
	if ours, ok := hints[pg.Code]; ok && (hint == "" || pg.Code[:2] == "42") {
		hint = ours
	}
	if pg.Code == insufficientPrivilege {
		verb, _, asked := strings.Cut(op, " run ") // as Ask.op has it: approve run 41
		role, ok := roles[verb]
		if !ok {
			role = roleSubmit
		}
		hint = fmt.Sprintf(hint, role)
		if asked && !ok {
			hint += " for its own runs, or " + roleAdmin + " for any"
		}
	}
	return &Error{Code: pg.Code, Message: pg.Message, Hint: hint, Detail: pg.Detail, is: sentinels[pg.Code], cause: pg}
}
