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

// MissingApprovers are the approvers of a step that are not roles of the server. The queue reports the same.
type MissingApprovers struct {
	DAG   string
	Step  string
	Roles []string
	Alone bool // an approval of the step names only roles that do not exist
}

// String returns a sentence for the user: which roles are missing, which step of which DAG names them as approvers, and which users
// can still decide that step.
func (m MissingApprovers) String() string {
	follows := "only the other approvers of the step can decide the approval"
	if m.Alone {
		follows = "only members of oarlock_admin and oarlock_worker can decide the approval, with `oarlock mark`"
	}
	return fmt.Sprintf("this database has no role %s, which step %s of %s names as an approver: %s", strings.Join(m.Roles, " or "), m.Step, m.DAG, follows)
}

// approvers warns if the current version of a DAG names an approver that is no role of the server, because of a typing error or a
// dropped role. It describes one step, preferably a step that no approver can decide, and counts all such steps.
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
		detail += fmt.Sprintf("; steps with a missing approver: %d", len(found))
	}
	return warn("%s", detail).withHint("have an administrator of the server create the role and grant it to the approvers; or correct the DAG file and type `oarlock dag apply FILE`")
}
