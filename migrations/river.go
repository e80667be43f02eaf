package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// RiverSchema is the schema of River's tables. An application that uses River itself has its own tables in another schema.
const RiverSchema = "oarlock_river"

const (
	riverMigration = 2 // the version of the migration that brings River
	riverVersion   = 8 // the version of River's schema that it brings; a newer one is a new migration
)

// river returns the migration that makes River's tables, or drops them. It uses one transaction per version of River's schema:
// later versions use enum values that earlier ones add, which is not allowed in one transaction (55P04). After a killed call,
// River's own history shows where to go on.
func (s *session) river() *goose.Migration {
	up := &rivermigrate.MigrateOpts{MaxSteps: 1, TargetVersion: riverVersion}
	down := &rivermigrate.MigrateOpts{MaxSteps: 1, TargetVersion: -1}
	return goose.NewGoMigration(riverMigration,
		&goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error {
			return s.moveRiver(ctx, rivermigrate.DirectionUp, up)
		}},
		&goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error {
			return s.moveRiver(ctx, rivermigrate.DirectionDown, down)
		}})
}

func (s *session) moveRiver(ctx context.Context, direction rivermigrate.Direction, opts *rivermigrate.MigrateOpts) error {
	migrator, err := newRiverMigrator(pglink.Component(s.log, "river", slog.LevelDebug-slog.LevelInfo))
	if err != nil {
		return err
	}
	return s.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			panic(fmt.Sprintf("migrations: the driver is %T, not pgx", driver))
		}
		for {
			moved, err := stepRiver(ctx, conn.Conn(), migrator, direction, opts)
			if err != nil || !moved {
				return err
			}
		}
	})
}

// stepRiver moves River's schema by one version in a transaction of its own. It returns false if there was no version left to move.
func stepRiver(ctx context.Context, conn *pgx.Conn, migrator *rivermigrate.Migrator[pgx.Tx], direction rivermigrate.Direction, opts *rivermigrate.MigrateOpts) (moved bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// River advises against this method because it runs many versions in one transaction; here it runs one.
		result, err := migrator.MigrateTx(ctx, tx, direction, opts) //nolint:staticcheck // see above
		if err == nil {
			moved = len(result.Versions) > 0
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("migrate River %s: %w", direction, err)
	}
	return moved, nil
}

func newRiverMigrator(log *slog.Logger) (*rivermigrate.Migrator[pgx.Tx], error) {
	return rivermigrate.New(riverpgxv5.New(nil), &rivermigrate.Config{Schema: RiverSchema, Logger: log})
}

// riverBundle returns River's own migrations up to riverVersion, the oldest first.
func riverBundle() []rivermigrate.Migration {
	migrator, err := newRiverMigrator(slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err) // only a migration line that does not exist fails
	}
	return migrator.AllVersions()[:riverVersion]
}
