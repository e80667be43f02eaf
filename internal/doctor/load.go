package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/sql"
)

// What old row versions cost grows with what happened since: by time for transactions, by transaction ids for slots.
const (
	oldTransaction = 15 * time.Minute
	oldXids        = 1_000_000
)

type holder struct {
	Kind    string
	Name    string
	Seconds float64
	Xids    int64
}

func (h holder) age() time.Duration { return time.Duration(h.Seconds * float64(time.Second)) }

func (h holder) old() bool { return h.age() > oldTransaction || h.Xids > oldXids }

func (h holder) String() string {
	if h.Seconds > 0 {
		return fmt.Sprintf("%s %s: %s and %d transactions old", h.Kind, h.Name, round(h.age()), h.Xids)
	}
	return fmt.Sprintf("%s %s: %d transactions old", h.Kind, h.Name, h.Xids)
}

var horizonSQL = sql.Named("doctor/horizon")

func (x *examination) horizon(ctx context.Context) Check {
	holders, err := all[holder](ctx, x.conn, horizonSQL)
	if err != nil {
		return broken("look for old snapshots", err)
	}
	for _, h := range holders {
		if h.old() {
			return warn("%s", h).todo("end it: while it lives no dead row in the whole server can be removed, and tables grow")
		}
	}
	switch {
	case !x.facts.SeesAllSessions:
		return skip("only its own sessions are visible to this user").todo("pg_monitor lets it see them all")
	case len(holders) == 0:
		return ok("nothing holds back the removal of dead rows")
	}
	return ok("oldest %s", holders[0])
}

type connections struct {
	Scope   string
	Used    int64
	Allowed int64
}

// minFree is what a worker with its pools wants to find.
const minFree = 20

var connectionsSQL = sql.Named("doctor/connections")

func (x *examination) connections(ctx context.Context) Check {
	limits, err := all[connections](ctx, x.conn, connectionsSQL)
	if err != nil {
		return broken("count connections", err)
	}
	return judgeConnections(limits)
}

// judgeConnections gets the limit of the server at least.
func judgeConnections(limits []connections) Check {
	tightest := limits[0]
	for _, l := range limits[1:] {
		if l.free() < tightest.free() {
			tightest = l
		}
	}
	if tightest.free() < minFree {
		return warn("%s", tightest).todo("a worker takes up to %d: raise the limit, or put a pooler in front of the applications", minFree)
	}
	return ok("%s", tightest)
}

func (c connections) free() int64 { return c.Allowed - c.Used }

func (c connections) String() string {
	return fmt.Sprintf("%d of %d in use (limit of the %s)", c.Used, c.Allowed, c.Scope)
}
