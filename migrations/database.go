package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	statement "github.com/oarlock-dev/oarlock/sql"
)

// database is an open database, with or without Oarlock in it.
type database struct {
	config
	db   *sql.DB
	link *pgx.ConnConfig
	user string
}

func open(ctx context.Context, url string, opts []Option) (*database, error) {
	d := &database{config: newConfig(opts)}
	conn, err := pglink.Parse(url, pglink.Options{AppName: "oarlock migrate", Log: d.log})
	if err != nil {
		return nil, err
	}
	// Migrations change the tables that prepared statements look at, so none are kept.
	conn.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	d.link, d.user = conn, conn.User
	if d.db, err = pglink.OpenDB(ctx, conn); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *database) close() { _ = d.db.Close() }

func (d *database) session() *session { return &session{database: d} }

// schema returns the schema that is applied; zero without Oarlock.
func (d *database) schema(ctx context.Context) (Schema, error) { return schemaOf(ctx, d.db) }

func schemaOf(ctx context.Context, db querier) (schema Schema, err error) {
	err = db.QueryRowContext(ctx, versionSQL).Scan(&schema.Version, &schema.ProgramsFrom)
	if err != nil && !isUndefined(err) {
		return Schema{}, fmt.Errorf("read the schema version: %w", err)
	}
	return schema, nil
}

// knownSchema returns the schema like schema does, and fails with a *VersionError if a newer binary migrated: this binary may
// work with that schema, and must not change it.
func (d *database) knownSchema(ctx context.Context) (Schema, error) {
	schema, err := d.schema(ctx)
	if err == nil && schema.Newer() {
		err = &VersionError{Have: schema.Version, Min: MinVersion, Max: MaxVersion}
	}
	return schema, err
}

// Version returns the newest version that is applied, 0 in a database without Oarlock. It changes nothing.
func Version(ctx context.Context, url string, opts ...Option) (int64, error) {
	d, err := open(ctx, url, opts)
	if err != nil {
		return 0, err
	}
	defer d.close()
	schema, err := d.schema(ctx)
	return schema.Version, err
}

// Entry is one line of the schema history: a version that this binary knows, or that the database has.
type Entry struct {
	Version      int64
	ProgramsFrom int64     // see Schema
	Name         string    // "unknown" for a version that only a newer binary knows
	AppliedAt    time.Time // zero while pending
}

// Pending reports whether Up would apply the version.
func (e Entry) Pending() bool { return e.AppliedAt.IsZero() }

// Status returns the schema history, the oldest version first: the versions that are applied, and those that are pending. It
// changes nothing.
func Status(ctx context.Context, url string, opts ...Option) ([]Entry, error) {
	d, err := open(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	defer d.close()
	applied, err := history(ctx, d.db)
	if err != nil {
		return nil, err
	}
	entries := map[int64]Entry{}
	for version, name := range names {
		entries[version] = Entry{Version: version, ProgramsFrom: programsFrom[version], Name: name}
	}
	for _, row := range applied {
		entries[row.version] = Entry{Version: row.version, ProgramsFrom: row.programsFrom, Name: nameOf(row.version), AppliedAt: row.appliedAt}
	}
	return slices.SortedFunc(maps.Values(entries), func(a, b Entry) int { return int(a.Version - b.Version) }), nil
}

type historyRow struct {
	version, programsFrom int64
	appliedAt             time.Time
}

var historySQL = statement.Named("migrate/history")

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// history returns the applied versions, the newest first; none in a database without Oarlock.
func history(ctx context.Context, db querier) (applied []historyRow, err error) {
	rows, err := db.QueryContext(ctx, historySQL)
	if isUndefined(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the schema history: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var row historyRow
		if err := rows.Scan(&row.version, &row.programsFrom, &row.appliedAt); err != nil {
			return nil, fmt.Errorf("read the schema history: %w", err)
		}
		applied = append(applied, row)
	}
	return applied, rows.Err()
}
