package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	statement "github.com/oarlock-dev/oarlock/sql"
)

// MinVersion and MaxVersion are the oldest and the newest schema version that this binary knows and works with. It also works
// with a newer version if ProgramsFrom allows it: see Schema.
const (
	MinVersion int64 = 17
	MaxVersion int64 = 17
)

const upCommand = "oarlock migrate up"

// Schema is the state of Oarlock's schema in a database; zero without Oarlock.
type Schema struct {
	Version int64 // the newest migration that is applied

	// ProgramsFrom is the oldest MaxVersion of a program that works with the schema. The program that migrated has recorded it,
	// since an older program cannot know whether a newer migration changed anything that it uses.
	ProgramsFrom int64
}

// PendingFrom returns the ProgramsFrom that Up would give to a schema of this version. It returns 0 if no migration is pending.
func PendingFrom(version int64) (from int64) {
	for pending, oldest := range programsFrom {
		if pending > version {
			from = max(from, oldest)
		}
	}
	return from
}

// Newer reports whether the schema is newer than MaxVersion.
func (s Schema) Newer() bool { return s.Version > MaxVersion }

// Check returns a *VersionError if the schema is too old or too new for this binary, and nil if this binary works with it.
func (s Schema) Check() error {
	switch {
	case s.Version < MinVersion:
		return &VersionError{Have: s.Version, Min: MinVersion, Max: MaxVersion, Command: upCommand}
	case s.Newer() && s.ProgramsFrom > MaxVersion:
		return &VersionError{Have: s.Version, Min: MinVersion, Max: MaxVersion}
	}
	return nil
}

// VersionError means that this binary does not work with the schema of the database. Its text names the command or the upgrade
// to do.
type VersionError struct {
	Have, Min, Max int64
	Command        string // the command that mends it; empty: this binary is too old
}

func (e *VersionError) Error() string {
	switch {
	case e.Have == 0:
		return fmt.Sprintf("the database has no Oarlock schema: run `%s`", e.Command)
	case e.Have < e.Min:
		return fmt.Sprintf("the database has schema version %d, this binary needs %s: run `%s`", e.Have, e.wanted(), e.Command)
	}
	return fmt.Sprintf("the database has schema version %d, this binary works with %s: upgrade this binary", e.Have, e.wanted())
}

func (e *VersionError) wanted() string {
	if e.Min == e.Max {
		return fmt.Sprint(e.Min)
	}
	return fmt.Sprintf("%d to %d", e.Min, e.Max)
}

// RowQuerier is a connection, a pool or a transaction of pgx.
type RowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

var versionSQL = statement.Named("migrate/version")

// Check reads the schema of the database by Look. It returns a *VersionError if the schema is too old or too new for this binary,
// and if there is none.
func Check(ctx context.Context, db RowQuerier) error {
	schema, err := Look(ctx, db)
	if err != nil {
		return err
	}
	return schema.Check()
}

// Look returns the schema that the database has; zero without Oarlock. If db is a transaction and the database has no Oarlock, the
// transaction has failed afterwards. Look takes one round trip, and leaves nothing behind in the session.
func Look(ctx context.Context, db RowQuerier) (schema Schema, err error) {
	err = db.QueryRow(ctx, versionSQL, pgx.QueryExecModeExec).Scan(&schema.Version, &schema.ProgramsFrom)
	if err != nil && !isUndefined(err) {
		return Schema{}, fmt.Errorf("read the schema version: %w", err)
	}
	return schema, nil
}

// isUndefined reports whether an error means that a table does not exist: the database was never migrated, or Oarlock was removed
// from it.
func isUndefined(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42P01"
}
