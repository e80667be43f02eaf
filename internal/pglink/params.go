package pglink

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// ownParams are set for Oarlock's own statements. These statements read few rows, by key. With large tables the server would
// estimate enough work to compile a statement, which takes longer than the statement itself.
var ownParams = map[string]string{"search_path": "pg_catalog, pg_temp", "jit": "off"}

// durableParams make every commit durable, whatever defaults the role or the database has. Each statement sees all data that
// was committed when it began.
var durableParams = map[string]string{"synchronous_commit": "on", "default_transaction_isolation": "read committed"}

// writerParams make the server detect a dead client: by probes, by unacknowledged data, and during a long computation.
var writerParams = map[string]string{
	"tcp_keepalives_idle":              "5",
	"tcp_keepalives_interval":          "2",
	"tcp_keepalives_count":             "3",
	"tcp_user_timeout":                 "10s",
	"client_connection_check_interval": "5s",
}

// plainParams save planning time. The server plans a statement once, for any number of rows, and reaches every table by its
// key. Planning would take ten times as long as a small flush.
var plainParams = map[string]string{
	"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
	"plan_cache_mode": "force_generic_plan",
}

// steadyParams are added to plainParams for statements that look for few rows among many.
var steadyParams = map[string]string{"enable_sort": "off"}

// flushParams limit how long one flush waits for locks.
var flushParams = map[string]string{"lock_timeout": "250ms"}

// ours are all parameters that this package sets. Parameters from a URL are not among them.
var ours = merged(ownParams, durableParams, writerParams, plainParams, steadyParams, flushParams)

func merged(all ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, m := range all {
		maps.Copy(sum, m)
	}
	return sum
}

// AsOurs changes c into the settings of a connection for Oarlock's own statements, for settings that do not come from Parse. It
// sets ownParams (see Options.AnyPath) and durableParams. Connections close themselves after an error about an outdated type.
func AsOurs(c *pgx.ConnConfig) {
	closeOutdated(&c.Config)
	maps.Copy(c.RuntimeParams, ownParams)
	maps.Copy(c.RuntimeParams, durableParams)
}

// AsWriter changes c: it sets the application_name of its connections, and makes the server give up soon on a client that vanished,
// as Options.Writer does.
func AsWriter(c *pgx.ConnConfig, appName string) {
	c.RuntimeParams["application_name"] = appName
	maps.Copy(c.RuntimeParams, writerParams)
}

// AsPlain changes c for a connection that sends the same few statements again and again: it sets plainParams, with which the server
// plans each statement only once.
func AsPlain(c *pgx.ConnConfig) { maps.Copy(c.RuntimeParams, plainParams) }

// AsSteady is AsPlain with steadyParams, for statements that must keep their plan whatever the statistics of the tables say.
func AsSteady(c *pgx.ConnConfig) {
	AsPlain(c)
	maps.Copy(c.RuntimeParams, steadyParams)
}

// AsFlush is AsPlain with flushParams: a statement fails if it waits for a lock for 250 ms.
func AsFlush(c *pgx.ConnConfig) {
	AsPlain(c)
	maps.Copy(c.RuntimeParams, flushParams)
}

// asked returns the parameters that c sends and that this package has set. A parameter with one of our names and another value
// comes from the URL, so asked leaves it out.
func asked(c *pgx.ConnConfig) map[string]string {
	params := map[string]string{}
	for name, value := range c.RuntimeParams {
		if mine, ok := ours[name]; ok && mine == value {
			params[name] = value
		}
	}
	return params
}

// withoutOurs removes this package's parameters from c. Parameters from the URL stay.
func withoutOurs(c *pgx.ConnConfig) {
	c.RuntimeParams = maps.Clone(c.RuntimeParams) // database/sql shares it between connections
	for name := range asked(c) {
		delete(c.RuntimeParams, name)
	}
}

var refitParams = sql.Named("pglink/refit")

// Refit changes the parameters of a connection that was opened with the settings from, so that it has those of to. It compares only
// parameters of this package, and sends nothing if all are equal. A parameter that only from has gets the default that is built
// into the server.
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
		return fmt.Errorf("change the parameters of a connection: %w", err)
	}
	return nil
}
