package queuetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/internal/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/queue/queuetest"
)

// a session fills every role.
var (
	_ queuetest.Client        = (*queue.Store)(nil)
	_ queuetest.Administrator = (*queue.Store)(nil)
	_ queuetest.Historian     = (*queue.Store)(nil)
	_ queuetest.LogReader     = (*queue.Store)(nil)
	_ queuetest.Claimer       = (*queue.Session)(nil)
	_ queuetest.Journal       = (*queue.Session)(nil)
	_ queuetest.Lease         = (*queue.Session)(nil)
	_ queuetest.LogSink       = (*queue.Session)(nil)
)

// inPostgres is a harness with a database of its own. Time passes by itself.
func inPostgres(t *testing.T) queuetest.Harness {
	t.Helper()
	db := pgtest.New(t)
	store, err := queue.Open(t.Context(), queue.Config{URL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return queuetest.Harness{
		Client: store, Admin: store, Logs: store, History: store,
		Register: func(ctx context.Context, w queue.Worker) (queuetest.Session, error) {
			s, err := store.Register(ctx, w)
			if err != nil {
				return queuetest.Session{}, err
			}
			return queuetest.Session{Claimer: s, Journal: s, Lease: s, LogSink: s}, nil
		},
		Settle: settleIn(db.Pool(t)),
		TTL:    300 * time.Millisecond,
		Tick: func() {
			select {
			case <-time.After(2 * time.Millisecond):
			case <-t.Context().Done():
			}
		},
		Check: func(tb testing.TB) { pgtest.CheckInvariants(tb, db.Conn(tb)) },
	}
}

// settleIn settles in a transaction that does nothing else.
func settleIn(pool *pgxpool.Pool) func(context.Context, queuetest.Session, queue.Settlement) error {
	return func(ctx context.Context, s queuetest.Session, set queue.Settlement) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return s.Journal.(*queue.Session).SettleTx(ctx, tx, set)
		})
	}
}

func TestStore_KeepsItsPromises(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, inPostgres)
}
