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

// Options configure how connections are opened. The zero value is ready to use.
type Options struct {
	AppName        string        // application_name; "oarlock" unless the URL or PGAPPNAME names another
	Log            *slog.Logger  // traces statements at debug level, without arguments; nil = no trace
	ConnectTimeout time.Duration // limit for one attempt at one host; connect_timeout in the URL wins
	PingTimeout    time.Duration // limit for the ping of a pooled connection that was idle
	MaxConns       int32         // pool_max_conns in the URL wins; 0 = the driver's default
	MinConns       int32         // pool_min_conns in the URL wins

	// Probe checks a new pool; if it fails, NewPool fails. nil: NewPool detects a pooler, which costs one ping if there is
	// none.
	Probe func(context.Context, *pgxpool.Pool) error

	// Unprepared makes a pool keep no prepared statements, as it does behind a pooler in transaction mode. It costs nothing
	// for statements that are sent only once.
	Unprepared bool

	// PooledConns replaces MaxConns behind a pooler in session mode, because each connection occupies one of the pooler's
	// few server connections. 0: as MaxConns.
	PooledConns int32

	// Writer asks the server to give up within seconds on a client that vanished during a statement. Otherwise the backend
	// keeps its locks for hours, and no statement timeout or idle timeout ends it.
	Writer bool

	// AnyPath leaves search_path to the URL, the role and the database, for statements that users write. Oarlock's own
	// statements find everything in pg_catalog or by its schema. With another search_path, a user that may create functions
	// in one of its schemas could create one that matches a call better than the system's function, and Oarlock would
	// execute it.
	AnyPath bool
}

const defaultAppName = "oarlock"

func (o Options) withDefaults() Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	o.PingTimeout = cmp.Or(o.PingTimeout, DefaultPingTimeout)
	return o
}
