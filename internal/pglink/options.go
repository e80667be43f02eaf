package pglink

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Defaults of Options.
const (
	DefaultConnectTimeout = 5 * time.Second
	DefaultPingTimeout    = 3 * time.Second
)

// Options say how connections are opened. The zero value is ready to use.
type Options struct {
	AppName        string        // application_name; "oarlock" unless the URL or PGAPPNAME names another
	Log            *slog.Logger  // traces statements at debug level, without arguments; nil = no trace
	ConnectTimeout time.Duration // one attempt at one host; connect_timeout in the URL wins
	PingTimeout    time.Duration // proof of life of a pooled connection that idled
	MaxConns       int32         // pool_max_conns in the URL wins; 0 = the driver's default
	MinConns       int32         // pool_min_conns in the URL wins

	// Probe is asked of a new pool, and what it says fails NewPool. nil: a look at what stands between here and the server,
	// which costs a ping where that is nothing.
	Probe func(context.Context, *pgxpool.Pool) error

	// Unprepared has a pool keep no statements prepared, as if a pooler lent its connections by the transaction. It costs
	// nothing where each statement is sent once.
	Unprepared bool

	// PooledConns is MaxConns where a pooler lends by the session: each is then one of its few. 0: as MaxConns.
	PooledConns int32

	// Writer asks the server to give up on a client that vanished half-way through a statement, within seconds:
	// without it such a backend keeps its locks for hours, and no statement or idle timeout ends it.
	Writer bool

	// AnyPath leaves search_path to the URL, the role and the database: for statements of other people. Ours find
	// everything in pg_catalog or by its schema. Somebody who may create functions in a schema of the path could
	// otherwise put one there that fits a call better than the system's own, and we would execute it.
	AnyPath bool
}

const defaultAppName = "oarlock"

func (o Options) withDefaults() Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	o.PingTimeout = cmp.Or(o.PingTimeout, DefaultPingTimeout)
	return o
}
