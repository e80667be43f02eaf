package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	statement "github.com/oarlock-dev/oarlock/sql"
)

// The schema versions this binary works with, both included. It also works with newer ones that say so: see Schema.
const (
	MinVersion int64 = 16
	MaxVersion int64 = 16
)

const upCommand = "oarlock migrate up"

// Schema is what a database has of Oarlock's schema; zero without any.
type Schema struct {
	Version int64 // the newest migration that is applied

	// ProgramsFrom is the oldest MaxVersion of the programs that work with it. Only the newer program that migrated knows: it
	// changed nothing that those use.
	ProgramsFrom int64
}

// PendingFrom is the ProgramsFrom of what Up would still apply to a schema of this version; 0 where nothing is pending.
func PendingFrom(version int64) (from int64) {
	for pending, oldest := range programsFrom {
		if pending > version {
			from = max(from, oldest)
		}
	}
	return from
}

// Newer reports whether only a newer binary knows the schema.
func (s Schema) Newer() bool { return s.Version > MaxVersion }

// Check says with a *VersionError that the schema is too old or too new for this binary.
func (s Schema) Check() error {
	switch {
	case s.Version < MinVersion:
		return &VersionError{Have: s.Version, Min: MinVersion, Max: MaxVersion, Command: upCommand}
	case s.Newer() && s.ProgramsFrom > MaxVersion:
		return &VersionError{Have: s.Version, Min: MinVersion, Max: MaxVersion}
	}
	return nil
}

// VersionError says that this binary and the database do not fit together, and what to do.
type VersionError struct {
	Have, Min, Max int64
	Command        string // the command that mends it, or "" where this binary is too old
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

// Check says with a *VersionError that the database is too old or too new for this binary; see Look.
func Check(ctx context.Context, db RowQuerier) error {
	schema, err := Look(ctx, db)
	if err != nil {
		return err
	}
	return schema.Check()
}

// Look reads which schema the database has. In a transaction that it is given, a database without Oarlock makes it fail. It takes one
// round trip, and leaves nothing behind in the session.
func Look(ctx context.Context, db RowQuerier) (schema Schema, err error) {
	err = db.QueryRow(ctx, versionSQL, pgx.QueryExecModeExec).Scan(&schema.Version, &schema.ProgramsFrom)
	if err != nil && !isUndefined(err) {
		return Schema{}, fmt.Errorf("read the schema version: %w", err)
	}
	return schema, nil
}

// isUndefined recognises a database without a history: never migrated, or taken down.
func isUndefined(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42P01"
}
