package storetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// A session fills every role.
var (
	_ storetest.Client        = (*queue.Store)(nil)
	_ storetest.Administrator = (*queue.Store)(nil)
	_ storetest.Historian     = (*queue.Store)(nil)
	_ storetest.LogReader     = (*queue.Store)(nil)
	_ storetest.Claimer       = (*queue.Session)(nil)
	_ storetest.Journal       = (*queue.Session)(nil)
	_ storetest.Lease         = (*queue.Session)(nil)
	_ storetest.LogSink       = (*queue.Session)(nil)
)

// inPostgres returns a harness with its own database. Its clock is real, and its workers log in with the rights of
// workers only.
func inPostgres(t *testing.T) storetest.Harness {
	t.Helper()
	db := pgtest.NewWithRoles(t)
	login := db.Login(t, "oarlock_worker")
	store, fleet := open(t, db.URL), open(t, login)
	pool, err := pgxpool.New(t.Context(), login)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return storetest.Harness{
		EnqueueAsAnother: fleet.Enqueue,
		Client:           store, Admin: store, Logs: fleet, History: store,
		Register: func(ctx context.Context, w queue.Worker) (storetest.Session, error) {
			s, err := fleet.Register(ctx, w)
			if err != nil {
				return storetest.Session{}, err
			}
			return storetest.Session{Claimer: s, Reader: s, Journal: s, Lease: s, LogSink: s}, nil
		},
		Settle: settleIn(pool),
		SetBack: func(d time.Duration) { // the server keeps its clock, so the stored times move forward instead
			if _, err := db.Conn(t).Exec(t.Context(), "UPDATE oarlock.runs SET run_at = run_at + $1, ready_at = ready_at + $1, created_at = created_at + $1", d); err != nil {
				t.Fatal(err)
			}
		},
		Refuse: func() func() { return refuse(t, db) },
		TTL:    300 * time.Millisecond,
		Tick: func() {
			select {
			case <-time.After(10 * time.Millisecond): // a thirtieth of the TTL; more frequent looks would cost more than they save
			case <-t.Context().Done():
			}
		},
		Check: func(tb testing.TB) { pgtest.CheckInvariants(tb, db.Conn(tb)) },
	}
}

func open(t *testing.T, url string) *queue.Store {
	t.Helper()
	store, err := queue.Open(t.Context(), queue.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// refuse makes the database refuse task rows with the error of a full disk, until mend is called.
func refuse(t *testing.T, db *pgtest.DB) (mend func()) {
	t.Helper()
	do := func(statement string) {
		if _, err := db.Conn(t).Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$`)
	do("CREATE TRIGGER refuse BEFORE INSERT ON oarlock.tasks FOR EACH ROW EXECUTE FUNCTION public.refuse()")
	return func() { do("DROP TRIGGER refuse ON oarlock.tasks") }
}

// settleIn settles in a transaction that does nothing else.
func settleIn(pool *pgxpool.Pool) func(context.Context, storetest.Session, queue.Settlement) error {
	return func(ctx context.Context, s storetest.Session, set queue.Settlement) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return s.Journal.(*queue.Session).SettleTx(ctx, tx, set)
		})
	}
}

func TestStore_KeepsItsPromises(t *testing.T) {
	t.Parallel()
	storetest.Run(t, inPostgres)
}
