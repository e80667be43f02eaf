package queue

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A dedicatedConn that borrows a connection has the parameters of its own statements on it, and none of the lender's.
func TestLink_BorrowsWithItsOwnParameters(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	store, err := Open(t.Context(), Config{URL: y.url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	l := store.newSessionConns(uuid.New())
	l.share()
	t.Cleanup(func() { _ = l.close(t.Context()) })
	want := map[*dedicatedConn][2]string{l.sweeps: {"off", "0"}, l.journal: {"on", "250ms"}, l.chunks: {"on", "0"}}
	var pid uint32
	before := l.sweeps
	for i, borrower := range []*dedicatedConn{l.sweeps, l.journal, l.chunks, l.sweeps} {
		err := borrower.hold(t.Context(), func(ctx context.Context) error {
			if i > 0 && !borrower.borrow(ctx) {
				t.Errorf("borrower %d got nothing", i)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = borrower.use(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
			var got [2]string
			if i > 0 && conn.PgConn().PID() != pid {
				t.Errorf("borrower %d has another connection", i)
			}
			pid = conn.PgConn().PID()
			err := conn.QueryRow(ctx, "SELECT current_setting('enable_sort'), current_setting('lock_timeout')").Scan(&got[0], &got[1])
			if got != want[borrower] {
				t.Errorf("borrower %d sorts and waits %q, want %q", i, got, want[borrower])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if before != borrower && (before.conn != nil || before.server != backend{}) {
			t.Errorf("the holder before borrower %d keeps what it lent", i)
		}
		before = borrower
	}
}
