package migrations

import (
	"context"
	"fmt"

	statement "github.com/oarlock-dev/oarlock/sql"
)

var encodingSQL = statement.Named("migrate/encoding")

// Encoding is the encoding that a database for Oarlock must have.
const Encoding = "UTF8"

// EncodingHint tells the user how to replace a database of another encoding.
const EncodingHint = "make a database in UTF-8 and migrate the new database: createdb --encoding UTF8 --template template0 NAME; " +
	"for the Postgres image set POSTGRES_INITDB_ARGS=--encoding=UTF8 before its first start"

// EncodingError means that a database without a schema is not encoded in UTF-8.
type EncodingError struct{ Encoding string }

func (e *EncodingError) Error() string { return "the database is encoded in " + e.Encoding }

// checkEncoding returns an *EncodingError if the database is not encoded in UTF-8 and has no schema yet: version is 0. With a
// schema it only logs a warning: the schema may hold runs, and they go on.
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
