package migrations

import (
	"context"
	"fmt"

	statement "github.com/oarlock-dev/oarlock/sql"
)

var encodingSQL = statement.Named("migrate/encoding")

// Encoding is how a database that Oarlock works in encodes texts.
const Encoding = "UTF8"

// EncodingHint says what to do about a database of another encoding.
const EncodingHint = "make one of UTF-8 and migrate that: createdb --encoding UTF8 --template template0 NAME; " +
	"for the Postgres image set POSTGRES_INITDB_ARGS=--encoding=UTF8 before its first start"

// EncodingError says that a database without a schema is not encoded in UTF-8.
type EncodingError struct{ Encoding string }

func (e *EncodingError) Error() string { return "the database is encoded in " + e.Encoding }

// checkEncoding fails with an *EncodingError where there is no schema yet. A schema that is there already is migrated, with a warning:
// it may hold runs, and they go on.
func (d *database) checkEncoding(ctx context.Context, version int64) error {
	var found string
	if err := d.db.QueryRowContext(ctx, encodingSQL).Scan(&found); err != nil {
		return fmt.Errorf("ask for the encoding: %w", err)
	}
	switch {
	case found == Encoding:
	case version == 0:
		return &EncodingError{Encoding: found}
	default:
		d.log.WarnContext(ctx, "the database is encoded in "+found, "hint", EncodingHint)
	}
	return nil
}
