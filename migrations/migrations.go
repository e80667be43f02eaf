package migrations

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// Applied is one step that Up or Down took.
type Applied struct {
	Version  int64
	Name     string
	Duration time.Duration
}

// Option changes how the functions of this package work.
type Option func(*config)

type config struct {
	log      *slog.Logger
	lockWait time.Duration
	force    bool
}

const defaultLockWait = 5 * time.Minute

// WithLogger reports progress to log. By default nothing is logged.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) { c.log = cmp.Or(log, c.log) }
}

// WithLockWait bounds how long a call waits for another migration to end; 5 minutes by default.
func WithLockWait(d time.Duration) Option {
	return func(c *config) { c.lockWait = d }
}

// WithForce makes Up migrate even if that stops workers at work.
func WithForce() Option {
	return func(c *config) { c.force = true }
}

func newConfig(opts []Option) config {
	c := config{log: slog.New(slog.DiscardHandler), lockWait: defaultLockWait}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// Up applies every pending migration, and returns the applied ones. It waits while another session migrates. It leaves a
// database that a newer binary migrated as it is, and returns a *VersionError if this binary does not work with that schema.
//
// Up fails with an *ExcludedError before it changes anything if workers are at work that have programs which do not work with
// the new schema. If such a worker registers meanwhile, Up fails before it commits the migration that stops the worker.
func Up(ctx context.Context, url string, opts ...Option) ([]Applied, error) {
	return migrate(ctx, url, opts, MaxVersion, (*session).up)
}

// Down takes back every migration above version to, the newest first, with all rows of its tables, and returns the steps that it
// took. Down to 0 leaves nothing but the roles, which may serve other databases. It waits while another session migrates. It
// returns a *VersionError, and changes nothing, if a newer binary has migrated.
func Down(ctx context.Context, url string, to int64, opts ...Option) ([]Applied, error) {
	if to < 0 || to > MaxVersion {
		return nil, fmt.Errorf("migrate down: there is no version %d: name one from 0 to %d", to, MaxVersion)
	}
	return migrate(ctx, url, opts, to, (*session).down)
}

// migrate opens a database and calls move, which brings it to version to. If the connection is lost or a table is locked for too
// long, pglink.Do calls move again, on a new session. migrate returns the steps of all calls, also with an error.
func migrate(ctx context.Context, url string, opts []Option, to int64, move func(*session, context.Context, int64) ([]Applied, error)) ([]Applied, error) {
	db, err := open(ctx, url, opts)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer db.close()
	var applied []Applied
	err = pglink.Do(ctx, func(ctx context.Context) error {
		steps, err := move(db.session(), ctx, to)
		applied = append(applied, steps...)
		return err
	}, repeat)
	if err != nil {
		return applied, fmt.Errorf("migrate: %w", db.nameBlocker(ctx, err))
	}
	return applied, nil
}

// repeat is a verify function for pglink.Do that always says that nothing is done, so that Do starts over after a lost reply. Each
// step records itself in its own transaction, so the next try reads from the database which steps are left.
func repeat(context.Context) (done bool, err error) { return false, nil }
