package doctor

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// registered is a database where a worker with this lease is at work.
func registered(t *testing.T, ttl time.Duration) (*pgtest.DB, *queue.Session) {
	t.Helper()
	db, store := newStore(t)
	session, err := store.Register(t.Context(), queue.Worker{
		ID: uuid.New(), Name: "w1", Host: "h", BootID: "b", PID: 1, Version: "v", Slots: 1, Containment: "none", TTL: ttl, Offers: []string{"process"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, session
}

func TestWorkers_FailsWhereOneAtWorkIsUnfit(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db, session := registered(t, time.Hour)
	tells := func(v queue.Vitals) Check {
		if _, err := session.Renew(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		return begin(t, db.URL).workers(t.Context())
	}
	wantCheck(t, tells(queue.Vitals{}), OK, "no worker at work is unfit")
	unfit := queue.Vitals{Unfit: "this host cannot start tasks: no space left on device", Since: time.Now().Add(-time.Hour)}
	wantCheck(t, tells(unfit), Fail, "1 of the workers at work claim nothing, w1 for 1h0m0")
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCheck(t, begin(t, db.URL).workers(t.Context()), OK, "no worker is at work, and no run is due")
}

func TestWorkers_ThatAreSilentForLongerThanTheirLeaseAreNamed(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db, _ := registered(t, queue.MinTTL)
	for end := time.Now().Add(time.Minute); ; {
		got := begin(t, db.URL).workers(t.Context())
		if got.Status == OK && time.Now().Before(end) {
			continue
		}
		wantCheck(t, got, Warn, "1 of the workers at work gave no sign of life for longer than their lease, w1 for ")
		wantCheck(t, got, Warn, "runs that they hold: 0")
		return
	}
}

func TestWorkers_WarnsWhereNobodyIsAtWork(t *testing.T) {
	t.Parallel()
	db, store := newStore(t)
	const source = "name: etl\nsteps: [{id: a, run: 'true'}]\n"
	spec, err := dagspec.Parse("etl.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutDAG(t.Context(), spec, source, "etl.yaml"); err != nil {
		t.Fatal(err)
	}
	wantCheck(t, begin(t, db.URL).workers(t.Context()), OK, "no worker is at work, and no run is due")
	if _, err := store.Enqueue(t.Context(), queue.Request{DAG: "etl"}); err != nil {
		t.Fatal(err)
	}
	wantCheck(t, begin(t, db.URL).workers(t.Context()), Warn, "no worker is at work, and runs are due")
}
