package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// Own is the name of the connection to the run's own database. Steps that name no connection use it.
const Own = "oarlock"

// Defaults of Config.
const (
	DefaultMaxOpen  = 25
	DefaultMaxIdle  = 5
	DefaultLifetime = 300 * time.Second
	DefaultIdleTime = 60 * time.Second
)

// Config lists the databases that tasks may reach, and limits the connections.
type Config struct {
	Connections map[string]Connection
	KeepOwn     bool // steps of postgres.query may not use Own; functions may

	MaxOpen  int           // connections to all databases together; 0: DefaultMaxOpen
	MaxIdle  int           // idle connections to each database; 0: DefaultMaxIdle
	Lifetime time.Duration // a connection older than this is not used again; 0: DefaultLifetime
	IdleTime time.Duration // a connection idle for this long is closed; 0: DefaultIdleTime
}

// Connection is a database that steps name.
type Connection struct {
	URL              string        // a URL or a keyword=value string, by libpq's rules
	StatementTimeout time.Duration // for steps that set none; 0: the step's own timeout
	LockTimeout      time.Duration // for steps that set none; 0: the server's default

	// Config takes the place of URL. It comes from pgx.ParseConfig, and the program may have changed it. It is copied.
	Config *pgx.ConnConfig

	// BeforeConnect may change the configuration of each connection before it is made, like that of a pool. nil: no change.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
}

func (c Config) withDefaults() Config {
	c.MaxOpen, c.MaxIdle = cmp.Or(c.MaxOpen, DefaultMaxOpen), cmp.Or(c.MaxIdle, DefaultMaxIdle)
	c.Lifetime, c.IdleTime = cmp.Or(c.Lifetime, DefaultLifetime), cmp.Or(c.IdleTime, DefaultIdleTime)
	return c
}

func (c Config) check() error {
	if c.MaxOpen < 1 || c.MaxIdle < 0 || c.Lifetime < 0 || c.IdleTime < 0 {
		return errors.New("limits of connections must be positive")
	}
	return nil
}

// database is a Connection with its parsed configuration.
type database struct {
	Connection

	name   string
	config *pgx.ConnConfig
}

// cancelPatience is how long the server may take to end a statement after a cancel request.
const cancelPatience = 5 * time.Second

func open(name string, c Connection) (*database, error) {
	config, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", name, err)
	}
	// Without named statements, a reset has nothing to deallocate, and poolers need no support for them.
	config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	// By default the driver would only close the connection, and the server would go on to the end of its statement.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelPatience}
	}
	c.URL, c.Config = "", nil // not needed from here on, and may contain a password
	return &database{Connection: c, name: name, config: config}, nil
}

// read returns the configuration of connections: a copy of c.Config, or else the parsed c.URL. It returns an error if both or
// neither is given, or the URL is malformed.
func (c *Connection) read() (*pgx.ConnConfig, error) {
	switch {
	case c.Config != nil && c.URL != "":
		return nil, errors.New("the connection has a URL and a Config: give only one of the two")
	case c.Config != nil:
		config := c.Config.Copy()
		pglink.AsWriter(config, config.RuntimeParams["application_name"])
		return config, nil
	case c.URL == "":
		return nil, errors.New("the connection has no URL")
	}
	return pglink.Parse(c.URL, pglink.Options{Writer: true, AnyPath: true})
}
