package pglink_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// The tests in this file record what the driver does today, not what it should do. If one fails after an upgrade, the driver
// has been fixed: that changes the reason for Do, but not the need for it.

func TestDriver_SaysSafeToRetryOfACommitThatHappened(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cut := b.proxy.Inject(netfault.Fault{When: netfault.Completed("COMMIT"), Do: netfault.Cut})
	conn := b.connect(t, b.through)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO ledger (key) VALUES ($1)", "a"); err != nil {
		t.Fatal(err)
	}
	err = tx.Commit(t.Context())
	cut.MustFire(t)
	if !errors.Is(err, pgconn.ErrConnClosed) || !pgconn.SafeToRetry(err) {
		t.Errorf("commit: %v, safe to retry %v; want conn closed, true", err, pgconn.SafeToRetry(err))
	}
	if got := b.rows(t); got != 1 {
		t.Errorf("%d rows, want the one that was committed", got)
	}
	if got := pglink.Classify(err); got != pglink.SessionLost {
		t.Errorf("classified as %v, want %v", got, pglink.SessionLost)
	}
}

func TestDriver_InsertsTwiceThroughDatabaseSQLAndReportsSuccess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	config, err := pglink.Parse(b.through, pglink.Options{AnyPath: true})
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	cut := b.proxy.Inject(netfault.Fault{When: netfault.Completed("INSERT 0 1"), Do: netfault.Cut})
	_, err = db.ExecContext(t.Context(), "INSERT INTO ledger (key) VALUES ('a')")
	cut.MustFire(t)
	if err != nil {
		t.Errorf("one ExecContext: %v, want no error", err)
	}
	if got := b.rows(t); got != 2 {
		t.Errorf("one ExecContext wrote %d rows, want the 2 that the driver makes of it", got)
	}
}
