package doctor

import (
	"context"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

const (
	pruneGrace = 8 // days that a run may be past its retention before a warning: a weekly prune is enough
	daySeconds = 24 * 60 * 60
)

var retentionSQL = sql.Named("queue/prune_overdue")

type late struct {
	Name string
	Late float64 // seconds
}

// retention warns if runs of a DAG are more than pruneGrace days past their retention, since only `oarlock prune` deletes runs.
func (x *examination) retention(ctx context.Context) Check {
	err := migrations.Check(ctx, x.conn)
	var found []late
	if err == nil {
		found, err = all[late](ctx, x.conn, retentionSQL)
	}
	if c := unseen(err); c != nil {
		return *c
	}
	switch {
	case err != nil:
		return skip("%s", Explain(err))
	case len(found) == 0 || found[0].Late < pruneGrace*daySeconds:
		return ok("nothing is more than %d days past its retention", pruneGrace)
	}
	return warn("runs of %s should have been deleted %.0f days ago", found[0].Name, found[0].Late/daySeconds).
		withHint("schedule `oarlock prune`, for instance nightly: no other program deletes runs")
}
