package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/pressly/goose/v3"
	store "github.com/pressly/goose/v3/database"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	statement "github.com/oarlock-dev/oarlock/sql"
)

// session is one move of a database, up or down. It implements goose's session locker and its store. All writes go through the
// connection that holds the lock, so a session that loses the lock cannot write any more.
type session struct {
	*database
	conn  *sql.Conn // holds the lock; nil: no lock is held
	rises bool      // the session goes up, which may stop workers
	roles bool      // the group roles own the schemas
}

func (s *session) up(ctx context.Context, _ int64) ([]Applied, error) {
	schema, err := s.schema(ctx)
	if err != nil {
		return nil, err
	}
	if schema.Newer() {
		return nil, schema.Check()
	}
	if err := s.checkEncoding(ctx, schema.Version); err != nil {
		return nil, err
	}
	s.rises = true
	provider, err := s.provider()
	if err != nil {
		return nil, err
	}
	return applied(provider.Up(ctx))
}

func (s *session) down(ctx context.Context, to int64) ([]Applied, error) {
	schema, err := s.knownSchema(ctx)
	if err != nil {
		return nil, err
	}
	if schema.Version == 0 {
		return nil, s.underLock(ctx, dropEmpty)
	}
	provider, err := s.provider()
	if err != nil {
		return nil, err
	}
	return applied(provider.DownTo(ctx, to))
}

// dropEmpty drops the schemas and the history if no migration is applied: an Up that was killed before its first migration left
// them. It does nothing if another session has migrated meanwhile.
func dropEmpty(ctx context.Context, conn *sql.Conn) error {
	applied, err := history(ctx, conn)
	if err != nil || len(applied) > 0 { // another session has migrated meanwhile
		return err
	}
	return execTx(ctx, conn, teardownSQL)
}

func (s *session) provider() (*goose.Provider, error) {
	files, err := fs.Sub(versionFiles, "versions")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", s.db, files,
		goose.WithStore(s),
		goose.WithSessionLocker(s),
		goose.WithGoMigrations(s.river()),
		goose.WithDisableGlobalRegistry(true),
		goose.WithVerbose(true),
		goose.WithSlog(pglink.Component(s.log, "migrate", slog.LevelDebug-slog.LevelInfo)),
	)
}

// applied converts the results of goose. If goose reports a migration that failed, applied returns the steps before it, and an
// error with the migration's name. It unwraps the error of SessionLock.
func applied(results []*goose.MigrationResult, err error) ([]Applied, error) {
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		results = partial.Applied
		err = fmt.Errorf("%s: %w", nameOf(partial.Failed.Source.Version), partial.Err)
	}
	if err != nil && strings.HasPrefix(err.Error(), "failed to initialize: ") {
		err = errors.Unwrap(err) // the error of SessionLock
	}
	steps := make([]Applied, len(results))
	for i, r := range results {
		steps[i] = Applied{Version: r.Source.Version, Name: nameOf(r.Source.Version), Duration: r.Duration}
	}
	return steps, err
}

var (
	recordSQL = statement.Named("migrate/record")
	forgetSQL = statement.Named("migrate/forget")

	sealSQL     = setupSQL("seal")
	grantsSQL   = setupSQL("grants")
	teardownSQL = setupSQL("teardown")
)

const firstVersion = 1

// Tablename implements goose's store. goose requires only that the name is not empty.
func (s *session) Tablename() string { return "oarlock.schema_history" }

// TableExists returns true, so that goose does not make the history before it has the lock: SessionLock makes it.
func (s *session) TableExists(context.Context, store.DBTxConn) (bool, error) { return true, nil }

// CreateVersionTable is never called, since TableExists returns true.
func (s *session) CreateVersionTable(context.Context, store.DBTxConn) error {
	return errors.New("the history is made under the lock")
}

// Insert implements goose's store. It records a migration in its transaction, and grants the privileges on the objects that the
// migration made. It returns an *ExcludedError if the migration would stop workers at work.
func (s *session) Insert(ctx context.Context, db store.DBTxConn, req store.InsertRequest) error {
	db = s.locked(db)
	for _, text := range s.grants() {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("grant privileges: %w", err)
		}
	}
	if err := s.shutOut(ctx, db, req.Version); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, recordSQL, req.Version, programsFrom[req.Version]); err != nil {
		return fmt.Errorf("record the version: %w", err)
	}
	return nil
}

func (s *session) grants() []string {
	if s.roles {
		return []string{sealSQL, grantsSQL}
	}
	return []string{sealSQL}
}

// Delete implements goose's store. It removes the record of a migration in the transaction that takes it back. With the first
// migration it also drops the schemas and the history.
func (s *session) Delete(ctx context.Context, db store.DBTxConn, version int64) error {
	db = s.locked(db)
	if _, err := db.ExecContext(ctx, forgetSQL, version); err != nil {
		return fmt.Errorf("forget the version: %w", err)
	}
	if version != firstVersion {
		return nil
	}
	if _, err := db.ExecContext(ctx, teardownSQL); err != nil {
		return fmt.Errorf("drop the schemas: %w", err)
	}
	return nil
}

// locked returns db if that is a transaction or a connection. For a pool, which goose passes for migrations in Go, it returns the
// connection that holds the lock.
func (s *session) locked(db store.DBTxConn) store.DBTxConn {
	if _, pool := db.(*sql.DB); pool {
		return s.conn
	}
	return db
}

// GetMigration implements goose's store. It returns one version of the history, or ErrVersionNotFound if that is not applied.
func (s *session) GetMigration(ctx context.Context, db store.DBTxConn, version int64) (*store.GetMigrationResult, error) {
	rows, err := history(ctx, db)
	for _, row := range rows {
		if row.version == version {
			return &store.GetMigrationResult{Timestamp: row.appliedAt, IsApplied: true}, nil
		}
	}
	return nil, errors.Join(err, store.ErrVersionNotFound)
}

// GetLatestVersion implements goose's store. It returns the newest version of the history, and 0 if there is none.
func (s *session) GetLatestVersion(ctx context.Context, db store.DBTxConn) (int64, error) {
	rows, err := s.ListMigrations(ctx, db)
	if err != nil {
		return 0, err
	}
	return rows[0].Version, nil
}

// ListMigrations implements goose's store. It returns the history, the newest version first, and at the end the version 0 that
// goose requires.
func (s *session) ListMigrations(ctx context.Context, db store.DBTxConn) ([]*store.ListMigrationsResult, error) {
	rows, err := history(ctx, db)
	if err != nil {
		return nil, err
	}
	list := make([]*store.ListMigrationsResult, 0, len(rows)+1)
	for _, row := range rows {
		list = append(list, &store.ListMigrationsResult{Version: row.version, IsApplied: true})
	}
	return append(list, &store.ListMigrationsResult{IsApplied: true}), nil
}
