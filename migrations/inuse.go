package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	store "github.com/pressly/goose/v3/database"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	statement "github.com/oarlock-dev/oarlock/sql"
)

// MaxOpen bounds how many open runs InUse counts.
const MaxOpen = 100_000

// Use is the work that the removal of a schema would stop.
type Use struct {
	Workers []string // names of the workers that gave a sign of life within their lease, sorted
	Runs    int64    // runs that are not over; MaxOpen means that many or more
}

var (
	inUseSQL    = statement.Named("migrate/in_use")
	excludedSQL = statement.Named("migrate/excluded")

	lockWorkersSQL = statement.Named("migrate/lock_workers")
)

// InUse returns the workers and the open runs of the schema, and none if there are no tables. It changes nothing.
func InUse(ctx context.Context, url string, opts ...Option) (use Use, err error) {
	config := newConfig(opts)
	link, err := pglink.Parse(url, pglink.Options{AppName: "oarlock migrate", Log: config.log})
	if err != nil {
		return use, err
	}
	conn, err := pglink.Dial(ctx, link, nil)
	if err != nil {
		return use, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, inUseSQL, pgx.QueryExecModeExec, MaxOpen).Scan(&use.Workers, &use.Runs)
	if isUndefined(err) {
		return Use{}, nil
	}
	if err != nil {
		return use, fmt.Errorf("look which workers and runs use the schema: %w", err)
	}
	return use, nil
}

// ExcludedError means that Up would stop workers at work: their programs do not work with the schema that it would make.
type ExcludedError struct{ Workers []string }

func (e *ExcludedError) Error() string {
	return "the new schema stops workers at work, of an older program: " + strings.Join(e.Workers, ", ")
}

// Excludes returns the names of the workers at work that Up would stop, because their programs do not work with the new schema. It
// changes nothing.
func Excludes(ctx context.Context, url string, opts ...Option) ([]string, error) {
	d, err := open(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	defer d.close()
	schema, err := d.schema(ctx)
	if err != nil {
		return nil, err
	}
	err = refuseExcluding(ctx, d.db, PendingFrom(schema.Version))
	if excluded, ok := errors.AsType[*ExcludedError](err); ok {
		return excluded.Workers, nil
	}
	return nil, err
}

// refuseExcluding returns an *ExcludedError if there are workers at work with programs that are too old for ProgramsFrom = from. It
// returns nil if there are none, and if there is no table of workers.
func refuseExcluding(ctx context.Context, conn querier, from int64) error {
	rows, err := conn.QueryContext(ctx, excludedSQL, from)
	if isUndefined(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look which workers and runs use the schema: %w", err)
	}
	defer rows.Close()
	var excluded ExcludedError
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return fmt.Errorf("look which workers and runs use the schema: %w", err)
		}
		excluded.Workers = append(excluded.Workers, name)
	}
	if err := rows.Err(); err != nil || len(excluded.Workers) == 0 {
		return err
	}
	return &excluded
}

// workersMigration is the version of the migration that brings the table of workers.
const workersMigration = 3

// shutOut looks for excluded workers again, before the migration version is recorded: a worker may have registered since the check
// of SessionLock. It returns an *ExcludedError if there are any. It keeps workers from registering until the transaction of db
// ends; they are refused then. shutOut does nothing if the session goes down, if Up is forced, and if the migration excludes no
// further programs.
func (s *session) shutOut(ctx context.Context, db store.DBTxConn, version int64) error {
	if !s.rises || s.force || version <= workersMigration || programsFrom[version] == programsFrom[version-1] {
		return nil
	}
	if _, err := db.ExecContext(ctx, lockWorkersSQL); err != nil {
		return fmt.Errorf("keep workers from registering: %w", err)
	}
	return refuseExcluding(ctx, db, programsFrom[version])
}
