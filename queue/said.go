package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/sql"
)

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
