package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

// A holder of old row versions is old from either bound on. Their cost grows with what happened since: time measures that
// for transactions, the number of transaction ids for slots.
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
		return fmt.Sprintf("%s %s is %s and %d transactions old", h.Kind, h.Name, round(h.age()), h.Xids)
	}
	return fmt.Sprintf("%s %s is %d transactions old", h.Kind, h.Name, h.Xids)
}

var horizonSQL = sql.Named("doctor/horizon")

func (x *examination) horizon(ctx context.Context) Check {
	holders, err := all[holder](ctx, x.conn, horizonSQL)
	if err != nil {
		return broken("look for old snapshots", err)
	}
	for _, h := range holders {
		if h.old() {
			return warn("%s", h).withHint("end this transaction, remove this replication slot, or turn hot_standby_feedback of this standby off: until then the server cannot remove dead rows, and tables grow")
		}
	}
	switch {
	case !x.facts.SeesAllSessions:
		return skip("this user sees only its own sessions").withHint("grant pg_monitor to this user, to check all sessions")
	case len(holders) == 0:
		return ok("no session holds up the removal of dead rows")
	}
	return ok("the oldest holder of dead rows: %s", holders[0])
}

// connections counts the connections that a server, a database or a login has, and its limit.
type connections struct {
	Scope    string
	Used     int64
	Allowed  int64
	Reserved int64 // part of Allowed: only superusers and similar roles may use them
	Workers  int64 // workers at work that this limit applies to
	Held     int64 // connections with a worker's name, so without those for listening and calls
	Login    bool  // the limit applies to a login
}

var connectionsSQL = sql.Named("doctor/connections")

func (x *examination) connections(ctx context.Context) Check {
	var there atWork // empty where this user may not see workers
	if err := migrations.Check(ctx, x.conn); err == nil {
		there, _ = one[atWork](ctx, x.conn, atWorkSQL, 0)
	}
	limits, err := all[connections](ctx, x.conn, connectionsSQL, there.Workers)
	if err != nil {
		return broken("count connections", err)
	}
	return judgeConnections(limits, int64(x.needs), int64(x.own))
}

// judgeConnections fails if the workers at work cannot get the connections that they need, and warns if a limit leaves too few
// connections for one more worker. needs is how many connections a worker keeps, and own is how many of these carry its name.
// limits must have an element, since a server always has a limit; judgeConnections sorts it.
func judgeConnections(limits []connections, needs, own int64) Check {
	slices.SortStableFunc(limits, func(a, b connections) int { return cmp.Compare(a.free(), b.free()) })
	var texts []string
	for _, l := range limits {
		texts = append(texts, l.String())
	}
	text := strings.Join(texts, "; ")
	for _, l := range limits {
		if l.free() == 0 && l.Held < l.Workers*own {
			return fail("%s", text).withHint("the workers at work under this limit (%d) need %d connections: raise the limit of the %s, or drain workers",
				l.Workers, l.Workers*needs, l.Scope)
		}
	}
	if limits[0].free() < max(needs, 1) {
		more := "raise the limit, or put a pooler in front of the applications"
		if limits[0].Login {
			more = "raise the limit of the " + limits[0].Scope
		}
		return warn("%s", text).withHint("a worker keeps %d connections, and one more for each postgres.query that runs: %s", needs, more)
	}
	return ok("%s", text)
}

// free returns how many more connections an ordinary user can get, at least 0. Superusers use the reserve only when the rest is
// taken.
func (c connections) free() int64 { return max(0, c.Allowed-c.Reserved-c.Used) }

func (c connections) String() string {
	kept := ""
	if c.Reserved > 0 {
		kept = fmt.Sprintf(", the last %d are for superusers", c.Reserved)
	}
	return fmt.Sprintf("%d of %d connections are in use%s (limit of the %s)", c.Used, c.Allowed, kept, c.Scope)
}
