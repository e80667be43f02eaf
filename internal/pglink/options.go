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

	// Probe is asked of a new pool in place of a ping: what it says fails NewPool. nil: a ping.
	Probe func(context.Context, *pgxpool.Pool) error

	// Writer asks the server to give up on a client that vanished half-way through a statement, within seconds:
	// without it such a backend keeps its locks for hours, and no statement or idle timeout ends it. Poolers that
	// refuse startup parameters refuse these.
	Writer bool

	// AnyPath leaves search_path to the URL, the role and the database: for statements of other people. Ours find
	// everything in pg_catalog or by its schema. Somebody who may create functions in a schema of the path could
	// otherwise put one there that fits a call better than the system's own, and we would execute it.
	AnyPath bool
}

// ownParams are for our statements. They read little and by key, but where tables are large the server expects enough of them
// to compile, which takes longer than they do.
var ownParams = map[string]string{"search_path": "pg_catalog, pg_temp", "jit": "off"}

const defaultAppName = "oarlock"

func (o Options) withDefaults() Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	o.PingTimeout = cmp.Or(o.PingTimeout, DefaultPingTimeout)
	if o.Probe == nil {
		o.Probe = func(ctx context.Context, pool *pgxpool.Pool) error { return pool.Ping(ctx) }
	}
	return o
}

// writerParams make the server notice a dead client: by probes, by unacknowledged data, and while it computes.
var writerParams = map[string]string{
	"tcp_keepalives_idle":              "5",
	"tcp_keepalives_interval":          "2",
	"tcp_keepalives_count":             "3",
	"tcp_user_timeout":                 "10s",
	"client_connection_check_interval": "5s",
}
