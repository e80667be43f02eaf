package doctor

import (
	"context"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// pruneGrace is how many days a run may be past its retention: whoever prunes weekly does well.
const pruneGrace = 8

var retentionSQL = sql.Named("doctor/retention")

type late struct {
	Name string
	Late float64 // days
}

// retention looks whether somebody prunes.
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
	case len(found) == 0 || found[0].Late < pruneGrace:
		return ok("nothing is more than %d days past its retention", pruneGrace)
	}
	return warn("runs of %s should have been deleted %.0f days ago", found[0].Name, found[0].Late).
		withHint("schedule `oarlock prune`, nightly for instance: nothing else deletes anything")
}
