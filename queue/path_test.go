package queue_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// A user may create functions in schema public, as every user could until PostgreSQL 15. No function of ours executes them.
func TestWorker_FindsNothingThatOthersPutIntoItsPath(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	pgtest.SetTraps(t, f.db.Conn(t))
	f.ask(t, "plain", 2)
	dead := f.register(t)
	if got, err := dead.Poll(t.Context(), queue.Want{Slots: 2, Free: 2}); err != nil || len(got.Claims) != 2 {
		t.Fatalf("%d claims, %v", len(got.Claims), err)
	}
	next := f.register(t, func(w *queue.Worker) { w.Replaces = []uuid.UUID{dead.ID()} })
	polled, err := next.Poll(t.Context(), queue.Want{Slots: 2, Free: 2})
	if err != nil || len(polled.Claims) != 2 {
		t.Fatalf("%d claims after the takeover, %v", len(polled.Claims), err)
	}
	if _, err := next.Load(t.Context(), polled.Claims); err != nil {
		t.Error(err)
	}
	if _, err := next.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Error(err)
	}
	if _, err := f.store.List(t.Context(), queue.Filter{}); err != nil {
		t.Error(err)
	}
}

func TestWorker_IsDurableWhateverTheDatabaseSays(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	name := value[string](t, f.clientBundle, "SELECT current_database()")
	f.exec(t, "ALTER DATABASE "+name+" SET synchronous_commit = off")
	f.exec(t, "ALTER DATABASE "+name+" SET default_transaction_isolation = 'serializable'")
	conn, err := f.worker.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for setting, want := range map[string]string{"synchronous_commit": "on", "default_transaction_isolation": "read committed", "search_path": "pg_catalog, pg_temp", "jit": "off"} {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, want %q; %v", setting, got, want, err)
		}
	}
}
