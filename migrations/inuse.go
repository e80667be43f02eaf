package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	statement "github.com/oarlock-dev/oarlock/sql"
)

// MaxOpen bounds how many open runs InUse counts.
const MaxOpen = 100_000

// Use says who would miss a schema that is taken down.
type Use struct {
	Workers []string // that gave a sign of life within their lease, by name
	Runs    int64    // that are not over; MaxOpen of them may be more
}

var (
	inUseSQL    = statement.Named("migrate/in_use")
	excludedSQL = statement.Named("migrate/excluded")
)

// InUse says who works with the schema now. Nobody does where there are no tables. It changes nothing.
func InUse(ctx context.Context, url string, opts ...Option) (use Use, err error) {
	err = ask(ctx, url, opts, func(conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, inUseSQL, pgx.QueryExecModeExec, MaxOpen).Scan(&use.Workers, &use.Runs)
		if err != nil && !isUndefined(err) {
			return fmt.Errorf("look who works with the schema: %w", err)
		}
		return nil
	})
	return use, err
}

// Excluded names the workers at work whose programs do not work with the schema that Up would make: they have to be stopped before.
// It changes nothing.
func Excluded(ctx context.Context, url string, opts ...Option) (workers []string, err error) {
	err = ask(ctx, url, opts, func(conn *pgx.Conn) error {
		schema, err := Look(ctx, conn)
		if err != nil || schema.Version >= MaxVersion {
			return err
		}
		from := int64(0)
		for version, oldest := range programsFrom {
			if version > schema.Version {
				from = max(from, oldest)
			}
		}
		err = conn.QueryRow(ctx, excludedSQL, pgx.QueryExecModeExec, from).Scan(&workers)
		if err != nil && !isUndefined(err) {
			return fmt.Errorf("look who works with the schema: %w", err)
		}
		return nil
	})
	return workers, err
}

// ask connects for a question.
func ask(ctx context.Context, url string, opts []Option, question func(*pgx.Conn) error) error {
	link, err := pglink.Parse(url, pglink.Options{AppName: "oarlock migrate", Log: newConfig(opts).log})
	if err != nil {
		return err
	}
	conn, err := pglink.Dial(ctx, link, nil)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return question(conn)
}
