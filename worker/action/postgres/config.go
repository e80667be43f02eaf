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

// Own is the name of the connection to the run's own database, which is also meant by steps that name none.
const Own = "oarlock"

// Defaults of Config.
const (
	DefaultMaxOpen  = 25
	DefaultMaxIdle  = 5
	DefaultLifetime = 300 * time.Second
	DefaultIdleTime = 60 * time.Second
)

// Config says what tasks may reach, and with how many connections.
type Config struct {
	Connections map[string]Connection
	KeepOwn     bool // Own is for functions alone: steps of postgres.query may not name it

	MaxOpen  int           // connections of all names together; 0: DefaultMaxOpen
	MaxIdle  int           // of each name; 0: DefaultMaxIdle
	Lifetime time.Duration // a connection is used no longer than that; 0: DefaultLifetime
	IdleTime time.Duration // and closed when it was not used for so long; 0: DefaultIdleTime
}

// Connection is a database that steps reach by a name.
type Connection struct {
	URL              string        // a URL or keyword=value string, by libpq's rules
	StatementTimeout time.Duration // of steps that name none; 0: the step's own timeout
	LockTimeout      time.Duration // of steps that name none; 0: as the server has it

	// Config stands instead of a URL: one that pgx.ParseConfig made, and that a program changed. It is copied.
	Config *pgx.ConnConfig

	// BeforeConnect may change each connection before it is made, as a pool's does. nil: as it is.
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

// database is a Connection that was read.
type database struct {
	Connection

	name   string
	config *pgx.ConnConfig
}

// cancelPatience is how long a server may take to end a statement that it was asked to cancel.
const cancelPatience = 5 * time.Second

func open(name string, c Connection) (*database, error) {
	config, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", name, err)
	}
	// No named statements: there is nothing to forget when a connection is reset, and poolers do not mind.
	config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	// The driver would just hang up, and the server go on to the end of its statement.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelPatience}
	}
	c.URL, c.Config = "", nil // nobody needs them from here on
	return &database{Connection: c, name: name, config: config}, nil
}

// read is what connections are made of.
func (c *Connection) read() (*pgx.ConnConfig, error) {
	switch {
	case c.Config != nil && c.URL != "":
		return nil, errors.New("it has a URL and a Config: give it one of them")
	case c.Config != nil:
		config := c.Config.Copy()
		pglink.AsWriter(config, config.RuntimeParams["application_name"])
		return config, nil
	case c.URL == "":
		return nil, errors.New("it has no URL")
	}
	return pglink.Parse(c.URL, pglink.Options{Writer: true, AnyPath: true})
}
