package queue

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/migrations"
)

// Config says how to reach the database. URL or Pool is required.
type Config struct {
	URL      string        // a URL or keyword=value string, by libpq's rules
	Pool     *pgxpool.Pool // a pool of yours to use instead; it stays yours
	Direct   string        // URL past a pooler, for connections that must know their backend; "": as URL
	PollOnly bool          // never LISTEN: new runs are seen by the next look
	MaxConns int32         // of the pool made for URL; 0: 8
	FewConns int32         // MaxConns where a pooler lends by the session: each is then one of its few; 0: as MaxConns
	Meter    Meter         // told what sessions do

	// FreshPaths has Session.Definition look each time where a version was put from last: its file may have moved.
	FreshPaths bool

	// Memory is of the host, for workers: nil for what this process remembers.
	Memory Memory

	// OwnSchema has Open refuse a schema that this program does not work with: a *migrations.VersionError. It costs no
	// round trip. Without it, clients may call the functions of a schema that is newer than they are. It is for programs that
	// send each statement once: none is kept prepared.
	OwnSchema bool
}

const defaultMaxConns = 8

// Store is the clients' side of runs in Postgres, and where workers register.
type Store struct {
	pool     *pgxpool.Pool
	ownsPool bool
	direct   *pgx.ConnConfig // what single connections are made of
	prepare  pglink.Prepare  // and what the pool that it is of does before
	pollOnly bool
	beside   bool // direct is another way than the pool's
	meter    Meter
	fresh    bool // Config.FreshPaths
	memory   Memory
	ears     *ears        // one LISTEN connection for all followers, made when the first appears
	specs    *definitions // compiled DAG versions
	shortage shortage     // of connections that a pooler lends
}

// Open connects to a database that Oarlock's schema is in.
func Open(ctx context.Context, c Config) (*Store, error) {
	s := &Store{pool: c.Pool, pollOnly: c.PollOnly, meter: c.Meter, fresh: c.FreshPaths, beside: c.Direct != "", shortage: shortage{patience: shortagePatience, tryPatience: occupyPatience}}
	if s.pool == nil {
		options := pglink.Options{MaxConns: cmp.Or(c.MaxConns, defaultMaxConns), PooledConns: c.FewConns}
		if c.OwnSchema {
			options.Probe, options.Unprepared = checkSchema, true
		}
		pool, err := pglink.NewPool(ctx, c.URL, options)
		if err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
		s.pool, s.ownsPool = pool, true
	}
	s.direct = s.pool.Config().ConnConfig
	if !s.ownsPool {
		s.prepare = s.pool.Config().BeforeConnect
	}
	if c.Direct != "" {
		direct, err := pglink.Parse(c.Direct, pglink.Options{})
		if err != nil {
			return nil, fmt.Errorf("open: direct connections: %w", err)
		}
		s.direct, s.prepare = direct, nil
	}
	if s.memory = c.Memory; s.memory == nil {
		s.memory = &recollection{}
	}
	s.ears = newEars(s)
	s.specs = newDefinitions()
	return s, nil
}

// checkSchema refuses a schema of another version, and a user who may not even ask for it.
func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	return lacks(ctx, pool, migrations.Check(ctx, pool), "has no role of Oarlock", roleSubmit, roleWorker, roleRead, roleApprove, roleAdmin)
}

// Close ends what the store opened. Sessions are to be closed before.
func (s *Store) Close() {
	s.ears.close()
	if s.ownsPool {
		pglink.ClosePool(s.pool)
	}
}

func (s *Store) newLink(config *pgx.ConnConfig) *link {
	l := newLink(config)
	l.prepare = s.prepare
	return l
}

// connConfig is for a connection of its own. A writer's server gives up soon on a client that vanished.
func (s *Store) connConfig(appName string) *pgx.ConnConfig {
	c := s.direct.Copy()
	pglink.AsWriter(c, appName)
	pglink.AsOurs(c)
	return c
}
