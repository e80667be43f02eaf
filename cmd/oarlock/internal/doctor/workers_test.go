package doctor

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// registered makes a database with one registered worker that has this lease.
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
	wantCheck(t, tells(queue.Vitals{}), OK, "no worker at work reports a reason to claim nothing")
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

// Doctor warns of a silent worker's runs long before its lease is over, and says what will happen to them.
func TestWorkers_WarnsOfRunsWhoseWorkerIsQuiet(t *testing.T) {
	t.Parallel()
	db, store := newStore(t)
	const source = "name: etl\nsteps: [{id: a, action: noop}]\n"
	spec, err := dagspec.Parse("etl.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutDAG(t.Context(), spec, source, "etl.yaml"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Enqueue(t.Context(), queue.Request{DAG: "etl"}); err != nil {
		t.Fatal(err)
	}
	scenes, err := os.ReadFile("testdata/quiet_worker.sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	const late = "gave no sign of life for longer than their lease, w1 for "
	wanted := []struct {
		status      Status
		words, hint string
	}{
		{Fail, "1 of the workers at work claim nothing", "correct the cause"},
		{Fail, "no worker at work gives a sign of life, and 1 run is due; 1 of the workers at work give no sign of life, w1 for ", "perhaps the database refuses the worker's login"},
		{Warn, "1 of the workers at work give no sign of life, w1 for ", "no other worker can take over the runs: start the silent worker again on its host, or start another"},
		{Warn, "(lease 5m0s); runs that they hold: 1", "other workers take over the runs of w1 in about "},
		{Fail, "1 of the workers at work " + late, "other workers take over the runs of the silent workers soon; time in which the other workers had no database does not count"},
		{Fail, "w2 for 6m0s (lease 5m0s); runs that they hold: 1; 1 of the workers at work claim nothing, w3 for 32s: no connection", "; correct the cause"},
		{Fail, "2 of the workers at work " + late, "start the silent worker again on its host"},
		{Fail, "2 of the workers at work " + late, "first decide whether this database is a copy"},
		{OK, "no worker at work reports a reason to claim nothing", ""},
	}
	steps := strings.Split(string(scenes), "\n\n")
	if len(steps) != len(wanted) {
		t.Fatalf("%d scenes, want %d", len(steps), len(wanted))
	}
	for i, want := range wanted {
		if _, err := conn.Exec(t.Context(), steps[i]); err != nil {
			t.Fatalf("%s: %v", steps[i], err)
		}
		got := begin(t, db.URL).workers(t.Context())
		wantCheck(t, got, want.status, want.words)
		if !strings.Contains(got.Hint, want.hint) {
			t.Errorf("hint %q, want %q in it", got.Hint, want.hint)
		}
	}
}

func TestFleet_NamesEveryKindOfTrouble(t *testing.T) {
	t.Parallel()
	soon := 90.0
	got := fleet{
		workers: make([]string, 12), due: 3,
		silent: []silent{{"w1", 400, 300, 4, &soon}, {"w2", 158, 300, 2, &soon}, {"w8", 40, 300, 0, &soon}},
		unfit:  []unfit{{"w3", "b", 189}, {"w4", "a", 32}, {"w5", "b", 20}, {"w6", "b", 9}, {"w7", "b", 8}, {"w9", "b", 7}, {"w0", "b", 6}},
	}.judge()
	wantCheck(t, got, Fail, "1 of the workers at work gave no sign of life for longer than their lease, w1 for 6m40s (lease 5m0s); runs that they hold: 4; "+
		"1 of the workers at work give no sign of life, w2 for 2m38s (lease 5m0s); runs that they hold: 2; "+
		"7 of the workers at work claim nothing, w3 for 3m9s, w4 for 32s, w5 for 20s, w6 for 9s, w7 for 8s and 2 more: b; a")
	for _, want := range []string{"other workers take over the runs of the silent workers soon; time in which the other workers had no database does not count", "; other workers take over the runs of w2 in about 1m30s", "; correct the cause"} {
		if !strings.Contains(got.Hint, want) {
			t.Errorf("hint %q, want %q in it", got.Hint, want)
		}
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
	wantCheck(t, begin(t, db.URL).workers(t.Context()), Warn, "no worker is at work, and 1 run is due")
}
