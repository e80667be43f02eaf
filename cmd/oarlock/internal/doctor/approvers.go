package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

var missingApproversSQL = sql.Named("queue/missing_approvers")

// MissingApprovers are roles that a step names as approvers and that do not exist, as the queue finds them, too.
type MissingApprovers struct {
	DAG   string
	Step  string
	Roles []string
	Alone bool // an approval of the step names no role that exists
}

// String says so, and what follows.
func (m MissingApprovers) String() string {
	follows := "only its other approvers can decide it"
	if m.Alone {
		follows = "nobody but operators can settle it, by a mark"
	}
	return fmt.Sprintf("no role %s in this database, which step %s of %s names: %s", strings.Join(m.Roles, " or "), m.Step, m.DAG, follows)
}

// approvers looks whether the current versions of DAGs name approvers that are no roles: a slip of the pen, or a role that was dropped.
func (x *examination) approvers(ctx context.Context) Check {
	err := migrations.Check(ctx, x.conn)
	var found []MissingApprovers
	if err == nil {
		found, err = all[MissingApprovers](ctx, x.conn, missingApproversSQL, pgx.StrictNamedArgs{"dags": nil})
	}
	if c := unseen(err); c != nil {
		return *c
	}
	switch {
	case err != nil:
		return skip("%s", Explain(err))
	case len(found) == 0:
		return ok("each approver that a DAG names is a role")
	}
	worst := found[0]
	for _, m := range found {
		if m.Alone && !worst.Alone {
			worst = m
		}
	}
	detail := worst.String()
	if len(found) > 1 {
		detail += fmt.Sprintf("; such steps: %d", len(found))
	}
	return warn("%s", detail).withHint("have an administrator of the server make the role and grant it to those who decide, or correct the DAG file and apply it")
}
