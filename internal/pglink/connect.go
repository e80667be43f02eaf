package pglink

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/tracelog"
)

// Parse reads a URL or a keyword=value string by libpq's rules, and adds the timeouts and parameters of o. PG* variables, ~/.pgpass
// and service files fill in settings that the string lacks, or all settings if it is empty. Parse connects to nothing. It ignores a
// password file that other users may read or write: see OpenPassfile. It refuses the simple protocol. Its errors never show secrets
// of the string.
func Parse(url string, o Options) (*pgx.ConnConfig, error) {
	pool, err := parse(url, o)
	if err != nil {
		return nil, err
	}
	return pool.ConnConfig, nil
}

// Connect opens one connection, by Parse and Dial. The caller closes it.
func Connect(ctx context.Context, url string, o Options) (*pgx.Conn, error) {
	config, err := Parse(url, o)
	if err != nil {
		return nil, err
	}
	conn, err := Dial(ctx, config, nil)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// parse is Parse for a pool; ConnConfig of the result is for single connections. Both use the parser for pools, because only that
// parser removes pool_max_conns and similar settings from a URL that serves both. It refuses the simple protocol.
func parse(url string, o Options) (*pgxpool.Config, error) {
	o = o.withDefaults()
	if OpenPassfile(url) != "" {
		url = withoutPassfile(url)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, parseError(err)
	}
	if config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return nil, fmt.Errorf("database URL: default_query_exec_mode=simple_protocol is refused, because this mode writes " +
			"arguments into the text of the statement: use cache_describe behind a pooler")
	}
	applyConn(config.ConnConfig, o)
	applyPool(config, url, o)
	return config, nil
}

func applyConn(c *pgx.ConnConfig, o Options) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = o.ConnectTimeout
	}
	c.DialFunc = dialer(c.ConnectTimeout).DialContext
	closeOutdated(&c.Config)
	switch {
	case o.AppName != "":
		c.RuntimeParams["application_name"] = o.AppName
	case c.RuntimeParams["application_name"] == "":
		c.RuntimeParams["application_name"] = defaultAppName
	}
	if !o.AnyPath {
		maps.Copy(c.RuntimeParams, ownParams)
	}
	if o.Writer {
		maps.Copy(c.RuntimeParams, writerParams)
	}
	if o.Log != nil && o.Log.Enabled(context.Background(), slog.LevelDebug) {
		c.Tracer = &tracelog.TraceLog{Logger: TraceLogger(o.Log), LogLevel: tracelog.LogLevelTrace}
	}
}

func applyPool(c *pgxpool.Config, url string, o Options) {
	c.PingTimeout = o.PingTimeout
	if o.MaxConns > 0 && !strings.Contains(url, "pool_max_conns") {
		c.MaxConns = o.MaxConns
	}
	if o.MinConns > 0 && !strings.Contains(url, "pool_min_conns") {
		c.MinConns = o.MinConns
	}
	c.MinConns = min(c.MinConns, c.MaxConns)
}

// dialer returns a dialer that gives up after timeout. Its connections detect a dead peer: idle connections by probes, busy
// connections by data that stays unacknowledged.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control:         setUserTimeout,
	}
}
