package doctor

import (
	"context"
	"errors"

	"github.com/oarlock-dev/oarlock/migrations"
)

// installation fails if this database may be a copy of a database that workers served: workers then refuse to claim runs here.
func (x *examination) installation(ctx context.Context) Check {
	err := migrations.Check(ctx, x.conn)
	if c := unseen(err); c != nil {
		return *c
	}
	i, err := migrations.ReadInstallation(ctx, x.conn)
	if err != nil {
		return broken("ask which installation this is", err)
	}
	if wrong, ok := errors.AsType[*migrations.CopyError](i.Judge(false)); ok {
		return fail("%s", wrong.Message()).withHint("%s", wrong.Hint())
	}
	return ok("%s: %v", i.ID, i.Here)
}
