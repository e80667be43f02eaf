package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

const poolPatience = 2 * time.Second // well within checkTimeout

// pooler connects as a worker does. It warns of a pooler in transaction mode, of a pooler in an unknown mode, and of a pooler that
// lends fewer connections than a worker needs. It sets x.sharesBackends for later checks.
func (x *examination) pooler(ctx context.Context) Check {
	link := x.link.Copy()
	pglink.AsWriter(link, link.RuntimeParams["application_name"])
	pglink.AsOurs(link)
	pglink.AsSteady(link)
	conn, found, err := pglink.DialSession(ctx, link, nil)
	x.sharesBackends = err != nil
	waiting, isWaiting := errors.AsType[*pglink.WaitingError](err)
	switch {
	case errors.Is(err, pglink.ErrPooled):
		return warn("the pooler is in transaction mode: commands and applications work, but a worker refuses to start").
			withHint("to start workers, set pool_mode = session for this database in the pooler's file, or set direct_url to the URL of the server behind the pooler")
	case isWaiting:
		return x.smallPool(1 + waiting.Lent)
	case err != nil:
		c := warn("the mode of the pooler is unknown: %s", Explain(err))
		if refusal := pglink.RefusalOf(err); refusal != nil && refusal.Hint != "" {
			return c.withHint("%s", refusal.Hint)
		}
		return c.withHint("set the pooler to transaction or session mode")
	}
	defer end(ctx, conn)
	if found == pglink.NoPooler {
		return ok("the connection goes to the server itself, without a pooler")
	}
	return x.poolSize(ctx, link)
}

// poolSize warns if the pooler lends fewer connections than a worker needs. The examination holds two connections already. poolSize
// opens all others at once, and closes them again.
func (x *examination) poolSize(ctx context.Context, link *pgx.ConnConfig) Check {
	var gets []pglink.Get
	for len(gets)+2 < x.needs {
		gets = append(gets, pglink.GetNew(link, nil))
	}
	more, refused := pglink.Lends(ctx, poolPatience, gets...)
	if lent := 2 + more; lent < x.needs {
		c := x.smallPool(lent)
		if refusal := pglink.RefusalOf(refused); refusal != nil {
			c.Detail += ": " + Explain(refused)
			return c.withHint("%s", refusal.Hint)
		}
		return c
	}
	return ok("the pooler is in session mode, and lends the %d connections that a worker needs", x.needs)
}

func (x *examination) smallPool(lent int) Check {
	return warn("the pooler is in session mode, and lends only %d connections: a worker needs %d, and refuses to start", lent, x.needs).
		withHint("to start one worker, %s", pglink.WorkerPoolHint(x.needs))
}
