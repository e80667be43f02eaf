package migrations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// The schema versions this binary works with, both included.
const (
	MinVersion int64 = 2
	MaxVersion int64 = 2
)

// Applied is one step that Up or Down took.
type Applied struct {
	Version  int64
	Name     string
	Duration time.Duration
}

// Entry is one line of the schema history: what this binary knows, and what the database has.
type Entry struct {
	Version   int64
	Name      string    // "unknown" for a version that only a newer binary knows
	AppliedAt time.Time // zero while pending
}

// Pending says that Up would apply it.
func (e Entry) Pending() bool { return e.AppliedAt.IsZero() }

// VersionError says that this binary and the database do not fit together, and what to do.
type VersionError struct {
	Have, Min, Max int64
	Command        string // the command to run, or "" where this binary is too old
}

func (e *VersionError) Error() string {
	switch {
	case e.Have == 0:
		return "the database has no oarlock schema: run `" + e.Command + "`"
	case e.Have < e.Min:
		return fmt.Sprintf("the database has schema version %d, this binary needs %d to %d: run `%s`", e.Have, e.Min, e.Max, e.Command)
	}
	return fmt.Sprintf("the database has schema version %d, this binary works with %d to %d: upgrade this binary", e.Have, e.Min, e.Max)
}

// Option changes how the functions of this package work.
type Option func(*config)

type config struct {
	log      *slog.Logger
	lockWait time.Duration
}

// WithLogger has progress reported to log; by default nothing is logged.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) { c.log = cmp.Or(log, c.log) }
}

// WithLockWait bounds how long to wait for another migration to end; 5 minutes by default.
func WithLockWait(d time.Duration) Option {
	return func(c *config) { c.lockWait = d }
}

// RowQuerier is a connection, a pool or a transaction of pgx.
type RowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

var errNotYet = errors.New("not built yet")

// Up applies every pending migration, and returns what it applied. It waits while another one migrates.
func Up(ctx context.Context, url string, opts ...Option) ([]Applied, error) { return nil, errNotYet }

// Down takes back every migration above version to, the newest first. Down to 0 leaves nothing but the roles.
func Down(ctx context.Context, url string, to int64, opts ...Option) ([]Applied, error) {
	return nil, errNotYet
}

// Status lists the schema history, the oldest version first. It changes nothing.
func Status(ctx context.Context, url string, opts ...Option) ([]Entry, error) { return nil, errNotYet }

// Version returns the newest version that is applied, 0 in a database without Oarlock. It changes nothing.
func Version(ctx context.Context, url string, opts ...Option) (int64, error) { return 0, errNotYet }

// Check says with a *VersionError that the database is too old or too new for this binary.
func Check(ctx context.Context, db RowQuerier) error { return errNotYet }

// Roles creates the group roles and grants them what they need. Where the caller may not, the error is a *RolesError
// with the SQL to hand to an administrator.
func Roles(ctx context.Context, url string, opts ...Option) error { return errNotYet }

// RolesSQL is what Roles executes, for an administrator to read and run.
func RolesSQL() string { return "" }

// Hash changes whenever the schema that Up makes may change; it names test templates.
func Hash() string { return "0" }
