package pglink

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// ownParams are for our statements. They read little and by key, but where tables are large the server expects enough of them
// to compile, which takes longer than they do.
var ownParams = map[string]string{"search_path": "pg_catalog, pg_temp", "jit": "off"}

// durableParams make what a connection commits durable, whatever the role or the database has as defaults. Its statements
// see what is committed as they begin.
var durableParams = map[string]string{"synchronous_commit": "on", "default_transaction_isolation": "read committed"}

// writerParams make the server notice a dead client: by probes, by unacknowledged data, and while it computes.
var writerParams = map[string]string{
	"tcp_keepalives_idle":              "5",
	"tcp_keepalives_interval":          "2",
	"tcp_keepalives_count":             "3",
	"tcp_user_timeout":                 "10s",
	"client_connection_check_interval": "5s",
}

// plainParams keep the server from thinking: a statement is planned once, for any number of rows, and every table in it is
// reached by its key. Planning takes ten times as long as a small flush does.
var plainParams = map[string]string{
	"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
	"plan_cache_mode": "force_generic_plan",
}

// steadyParams come on top where a statement looks for little among much.
var steadyParams = map[string]string{"enable_sort": "off"}

// flushParams bound how long one flush waits for locks.
var flushParams = map[string]string{"lock_timeout": "250ms"}

// ours are all the parameters that connections of ours ask for, beside what stands in a URL.
var ours = merged(ownParams, durableParams, writerParams, plainParams, steadyParams, flushParams)

func merged(all ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, m := range all {
		maps.Copy(sum, m)
	}
	return sum
}

// AsOurs keeps to itself a connection whose settings somebody else made: see Options.AnyPath. It is durable, too.
func AsOurs(c *pgx.ConnConfig) {
	closeOutdated(&c.Config)
	maps.Copy(c.RuntimeParams, ownParams)
	maps.Copy(c.RuntimeParams, durableParams)
}

// AsWriter names a connection and has its server give up on the client soon once that vanished: see Options.Writer.
func AsWriter(c *pgx.ConnConfig, appName string) {
	c.RuntimeParams["application_name"] = appName
	maps.Copy(c.RuntimeParams, writerParams)
}

// AsPlain is for a connection that sends the same few statements again and again.
func AsPlain(c *pgx.ConnConfig) { maps.Copy(c.RuntimeParams, plainParams) }

// AsSteady is AsPlain for statements whose plans must not depend on statistics.
func AsSteady(c *pgx.ConnConfig) {
	AsPlain(c)
	maps.Copy(c.RuntimeParams, steadyParams)
}

// AsFlush is AsPlain for statements that do not wait long for locks.
func AsFlush(c *pgx.ConnConfig) {
	AsPlain(c)
	maps.Copy(c.RuntimeParams, flushParams)
}

// asked are the parameters of ours that a connection asks for. A value of the URL's own is not ours.
func asked(c *pgx.ConnConfig) map[string]string {
	params := map[string]string{}
	for name, value := range c.RuntimeParams {
		if mine, ok := ours[name]; ok && mine == value {
			params[name] = value
		}
	}
	return params
}

// withoutOurs has a connection ask for nothing but what stands in its URL.
func withoutOurs(c *pgx.ConnConfig) {
	c.RuntimeParams = maps.Clone(c.RuntimeParams) // database/sql shares it between connections
	for name := range asked(c) {
		delete(c.RuntimeParams, name)
	}
}

var refitParams = sql.Named("pglink/refit")

// Refit gives a connection that was made for one job the parameters that another job asks for, where they differ in ours. What only
// the former asked for becomes what the server has built in.
func Refit(ctx context.Context, conn *pgx.Conn, from, to *pgx.ConnConfig) error {
	values := map[string]*string{}
	for name := range merged(asked(from), asked(to)) {
		had := from.RuntimeParams[name]
		switch value, wanted := to.RuntimeParams[name]; {
		case !wanted:
			values[name] = nil
		case value != had:
			values[name] = &value
		}
	}
	if len(values) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(values))
	ordered := make([]*string, len(names))
	for i, name := range names {
		ordered[i] = values[name]
	}
	if _, err := conn.Exec(ctx, refitParams, pgx.QueryExecModeExec, names, ordered); err != nil {
		return fmt.Errorf("give a connection another job: %w", err)
	}
	return nil
}
