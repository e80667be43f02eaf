package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	statement "github.com/oarlock-dev/oarlock/sql"
)

var (
	// ErrLocked means that another migration did not end in time.
	ErrLocked = errors.New("another migration is running")
	// ErrHeld means that an open transaction of another session holds a table that a migration changes.
	ErrHeld = errors.New("an open transaction holds what this migration changes")
	// ErrReadOnly means that the server is a standby, and takes no writes.
	ErrReadOnly = errors.New("this server is a read-only standby: connect to the primary, or write all hosts and target_session_attrs=read-write into the URL")
	// ErrReadOnlySession means that a setting of the session forbids writes.
	ErrReadOnlySession = errors.New("this session is read-only: find where default_transaction_read_only is on: the server, the database, the user or the URL can set it")
	// ErrPooled means that a pooler could leave the lock of migrations behind in a connection that other clients use.
	ErrPooled = errors.New("a pooler in transaction mode stands between this program and the server, and a migration must keep its session: " +
		"connect to the server without the pooler, or through a pooler with pool_mode = session")
	// ErrServerTooOld means that PostgreSQL itself is older than MinServer.
	ErrServerTooOld = errors.New("PostgreSQL is too old")
)

// MinServer is the oldest PostgreSQL that Oarlock works with.
const MinServer = 14

// lockKey is the advisory lock of migrations, one per database: "oarlock" in ASCII.
const lockKey int64 = 0x6f61726c6f636b

const (
	lockPause     = 100 * time.Millisecond
	lockReport    = 10 * time.Second
	unlockTimeout = 5 * time.Second
)

var (
	historyTableSQL = setupSQL("history")

	lockSQL    = statement.Named("migrate/lock")
	unlockSQL  = statement.Named("migrate/unlock")
	holderSQL  = statement.Named("migrate/lock_holder")
	serverSQL  = statement.Named("migrate/server")
	blockerSQL = statement.Named("migrate/blocker")
	ownerSQL   = statement.Named("migrate/owner")
	schemaSQL  = setupSQL("schema")
	sessionSQL = setupSQL("session")
)

// SessionLock implements goose's session locker. It waits for the lock of migrations and takes it on conn. It then makes the
// schemas and the history if they do not exist, and lets the session work as the owner of the schema. If workers are at work that
// Up would stop, it returns an *ExcludedError. After an error the lock is released.
func (s *session) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if err := s.lock(ctx, conn); err != nil {
		return err
	}
	if err := s.prepare(ctx, conn); err != nil {
		s.unlock(context.WithoutCancel(ctx), conn)
		return err
	}
	s.conn = conn
	return nil
}

// SessionUnlock implements goose's session locker. It always returns nil.
func (s *session) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	s.unlock(ctx, conn)
	return nil
}

// unlock releases the lock of migrations, and waits up to unlockTimeout. It returns no error: a connection too broken to answer
// loses the lock, and is closed next.
func (s *session) unlock(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	s.conn = nil
	if _, err := conn.ExecContext(ctx, unlockSQL, lockKey); err != nil {
		s.log.DebugContext(ctx, "the lock of migrations goes with its connection", "err", err)
	}
}

func checkServer(ctx context.Context, conn *sql.Conn) error {
	var version int
	var standby, readOnly bool
	if err := conn.QueryRowContext(ctx, serverSQL).Scan(&version, &standby, &readOnly); err != nil {
		return fmt.Errorf("ask for the server's version: %w", err)
	}
	return refuseServer(version, standby, readOnly)
}

func refuseServer(version int, standby, readOnly bool) error {
	switch major := version / 10000; {
	case major < MinServer:
		return fmt.Errorf("%w: the server is version %d, Oarlock needs %d or newer: upgrade the server", ErrServerTooOld, major, MinServer)
	case standby:
		return ErrReadOnly
	case readOnly:
		return ErrReadOnlySession
	}
	return nil
}

func (s *session) lock(ctx context.Context, conn *sql.Conn) error {
	if pglink.IsPooled(s.link) {
		return ErrPooled
	}
	if err := checkServer(ctx, conn); err != nil {
		return err
	}
	return s.acquire(ctx, conn)
}

// underLock waits for the lock of migrations, and calls do with the connection that holds it. It releases the lock when do has
// returned.
func (s *session) underLock(ctx context.Context, do func(context.Context, *sql.Conn) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := s.lock(ctx, conn); err != nil {
		return err
	}
	defer s.unlock(context.WithoutCancel(ctx), conn)
	return do(ctx, conn)
}

func execTx(ctx context.Context, conn *sql.Conn, texts ...string) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, text := range texts {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// acquire waits for the lock of migrations, and takes it on conn. It returns an ErrLocked after s.lockWait, or when ctx ends. It
// tries again and again rather than queueing in the server: a waiter that is killed is then gone at once, and a waiter can log the
// session that it waits for.
func (s *session) acquire(ctx context.Context, conn *sql.Conn) error {
	deadline := time.NewTimer(s.lockWait)
	defer deadline.Stop()
	report := time.Now()
	for {
		var locked bool
		if err := conn.QueryRowContext(ctx, lockSQL, lockKey).Scan(&locked); err != nil || locked {
			return err
		}
		if !time.Now().Before(report) {
			s.log.InfoContext(ctx, "waiting for another migration to end", "holder", holder(ctx, conn))
			report = time.Now().Add(lockReport)
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrLocked, context.Cause(ctx))
		case <-deadline.C:
			return fmt.Errorf("%w: waited %v for %s: try again later, or end it if it hangs", ErrLocked, s.lockWait, holder(ctx, conn))
		}
	}
}

func holder(ctx context.Context, conn *sql.Conn) string {
	var description string
	if err := conn.QueryRowContext(ctx, holderSQL, lockKey).Scan(&description); err != nil {
		return "a process that is gone by now"
	}
	return description
}

// nameBlocker turns a lock timeout into an ErrHeld that names a session that may hold the lock: the server does not report
// which lock a statement waited for. It returns any other error as it is.
func (d *database) nameBlocker(ctx context.Context, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "55P03" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	by := "none is open any more"
	_ = d.db.QueryRowContext(ctx, blockerSQL).Scan(&by)
	return fmt.Errorf("%w; the oldest that uses tables of Oarlock: %s", ErrHeld, by)
}

func (s *session) prepare(ctx context.Context, conn *sql.Conn) error {
	for _, text := range []string{schemaSQL, sessionSQL, historyTableSQL} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("prepare the schema: %w", err)
		}
	}
	if err := conn.QueryRowContext(ctx, ownerSQL).Scan(&s.roles); err != nil {
		return fmt.Errorf("ask which role owns the schema: %w", err)
	}
	if !s.rises || s.force {
		return nil
	}
	schema, err := schemaOf(ctx, conn)
	if err != nil {
		return err
	}
	return refuseExcluding(ctx, conn, PendingFrom(schema.Version))
}
