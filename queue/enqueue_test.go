package queue_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestEnqueue_PassesEveryFieldOn(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	second := d.put(t, reportDAG+"description: again\n")
	if err := d.store.SetQueue(t.Context(), queue.QueueChange{Name: "slow"}); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2126, 11, 20, 6, 0, 0, 0, time.UTC)
	low := -5
	id, err := d.store.Enqueue(t.Context(), queue.Request{
		DAG: "report", Params: map[string]any{"day": "x", "n": 3}, Key: "k", RunAt: at, Priority: &low, Queue: "slow",
		Labels: map[string]string{"who": "ana"}, Selector: map[string]string{"gpu": "true"}, LogicalAt: at.Add(-time.Hour),
		Traceparent: "00-a-b-01", Precomputed: json.RawMessage(`{"extract": {"exit_code": 0}}`), Version: second.Version - 1, Manual: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	run := d.get(t, id)
	if run.DAG != "report" || run.Version != 1 || run.State != "scheduled" || run.Queue != "slow" || run.Priority != -5 || run.Key != "k" ||
		run.Trigger != "manual" || !run.RunAt.Equal(at) || !run.LogicalAt.Equal(at.Add(-time.Hour)) || run.Labels["who"] != "ana" ||
		run.Labels["team"] != "billing" || string(run.Params) != `{"n": 3, "day": "x"}` || run.Root != id || run.Parent != 0 || run.Over() {
		t.Errorf("%+v", run)
	}
	rest := value[string](t, d, `SELECT concat_ws(' ', r.traceparent, r.precomputed, l.selector) FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE run_id = $1`, id)
	if want := `00-a-b-01 {"extract": {"exit_code": 0}} {"gpu": "true"}`; rest != want {
		t.Errorf("%s, want %s", rest, want)
	}
}

func TestEnqueue_TakesParamsInAnyForm(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	type params struct {
		Day string `json:"day"`
	}
	for _, given := range []any{params{"x"}, &params{"x"}, json.RawMessage(`{"day":"x"}`), map[string]string{"day": "x"}} {
		id, err := d.store.Enqueue(t.Context(), queue.Request{DAG: "report", Params: given})
		if err != nil {
			t.Fatalf("%T: %v", given, err)
		}
		if run := d.get(t, id); string(run.Params) != `{"day": "x"}` || run.Trigger != "sql" {
			t.Errorf("%T: %s %s", given, run.Params, run.Trigger)
		}
	}
	_, err := d.store.Enqueue(t.Context(), queue.Request{DAG: "report"})
	wantError(t, err, nil, "OA003")
	if _, err = d.store.Enqueue(t.Context(), queue.Request{DAG: "report", Params: func() {}}); err == nil {
		t.Error("a function was marshalled")
	}
}

func TestEnqueue_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	if _, err := d.store.Enqueue(t.Context(), report("taken")); err != nil {
		t.Fatal(err)
	}
	other := report("taken")
	other.Params = map[string]string{"day": "y"}
	high := 7
	for name, c := range map[string]struct {
		request  queue.Request
		sentinel error
		code     string
	}{
		"unknown dag": {queue.Request{DAG: "reprot"}, queue.ErrNotFound, "OA001"},
		"bad param":   {queue.Request{DAG: "report", Params: map[string]int{"day": 1}}, nil, "OA003"},
		"other key":   {other, queue.ErrConflict, "OA004"},
		"no queue":    {queue.Request{DAG: "report", Params: other.Params, Queue: "nowhere"}, nil, "OA013"},
		"NUL":         {queue.Request{DAG: "report", Params: map[string]string{"day": "a\x00"}}, nil, "22P05"},
		"not UTF-8":   {queue.Request{DAG: "report\xff", Priority: &high}, nil, "22021"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := d.store.Enqueue(t.Context(), c.request)
			wantError(t, err, c.sentinel, c.code)
		})
	}
}

func TestEnqueue_RemovedDAGIsNotFound(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	yes := true
	if err := d.store.SetDAG(t.Context(), queue.DAGChange{Name: "report", Removed: &yes}); err != nil {
		t.Fatal(err)
	}
	_, err := d.store.Enqueue(t.Context(), report(""))
	wantError(t, err, queue.ErrNotFound, "OA002")
}

func TestEnqueueTx_LivesAndDiesWithTheTransaction(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	db, err := sql.Open("pgx", d.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	inTx := map[string]func(end func(commit, rollback func() error) error) (queue.RunID, error){
		"pgx": func(end func(commit, rollback func() error) error) (queue.RunID, error) {
			ctx := context.WithoutCancel(t.Context())
			tx, err := d.db.Conn(t).Begin(ctx)
			if err != nil {
				return 0, err
			}
			id, err := queue.EnqueueTx(ctx, tx, report(""))
			return id, errors.Join(err, end(func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) }))
		},
		"database/sql": func(end func(commit, rollback func() error) error) (queue.RunID, error) {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return 0, err
			}
			id, err := queue.EnqueueSQL(t.Context(), tx, report(""))
			return id, errors.Join(err, end(tx.Commit, tx.Rollback))
		},
	}
	for name, enqueue := range inTx {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept, err := enqueue(func(commit, _ func() error) error { return commit() })
			if err != nil || d.get(t, kept).State != "queued" {
				t.Fatalf("committed: %v", err)
			}
			gone, err := enqueue(func(_, rollback func() error) error { return rollback() })
			if err != nil {
				t.Fatal(err)
			}
			_, err = d.store.Get(t.Context(), gone)
			wantError(t, err, queue.ErrNotFound, "")
		})
	}
}

func TestEnqueueTx_TakesWhateverRunsAStatement(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	db, err := sql.Open("pgx", d.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	pool := d.db.Pool(t)
	for name, q := range map[string]queue.Querier{"conn": d.conn, "pool": pool} {
		if _, err := queue.EnqueueTx(t.Context(), q, report("")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	every := report("all")
	every.RunAt, every.LogicalAt, every.Labels = time.Now().Add(time.Hour), time.Now(), map[string]string{"a": "b"}
	first, err := queue.EnqueueSQL(t.Context(), db, every)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := queue.EnqueueTx(t.Context(), pool, every); err != nil || again != first {
		t.Errorf("run %d, then %d, %v", first, again, err)
	}
	_, err = queue.EnqueueSQL(t.Context(), db, queue.Request{DAG: "reprot"})
	wantError(t, err, queue.ErrNotFound, "OA001")
}

func TestEnqueueTx_WorksInEveryExecMode(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config := d.conn.Config().Copy()
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		high := -1
		r := report("mode " + mode.String())
		r.Priority, r.RunAt, r.Labels, r.Precomputed = &high, time.Now(), map[string]string{"it's": "b"}, json.RawMessage(`{"extract": {}}`)
		if id, err := queue.EnqueueTx(t.Context(), conn, r); err != nil || id == 0 {
			t.Errorf("%s: %v", mode, err)
		}
		_ = conn.Close(t.Context())
	}
}

// through returns a store with connections that lead through a proxy.
func (d *clientBundle) through(t *testing.T) (*netfault.Proxy, *queue.Store) {
	t.Helper()
	proxy, url := netfault.Through(t, d.db.URL)
	return proxy, d.open(t, url)
}

func TestEnqueue_WithAKeyOutlivesALostConnection(t *testing.T) {
	t.Parallel()
	for lost, when := range map[string]netfault.Match{
		"reply":   netfault.Completed("SELECT 1"), // sent after the commit
		"request": netfault.OfType(netfault.Client, 'B'),
	} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			d := newClientBundle(t)
			proxy, store := d.through(t)
			cut := proxy.Inject(netfault.Fault{When: when, Do: netfault.Cut})
			id, err := store.Enqueue(t.Context(), report("once"))
			if err != nil {
				t.Fatal(err)
			}
			cut.MustFire(t)
			if d.get(t, id).Key != "once" || value[int](t, d, "SELECT count(*) FROM oarlock.runs") != 1 {
				t.Error("not one run")
			}
		})
	}
}

func TestEnqueue_WithAKeyTellsACallerWhoGaveUp(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	proxy, store := d.through(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hold := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Hold})
	defer hold.Release()
	go func() { <-hold.Fired(); cancel() }()
	id, err := store.Enqueue(ctx, report("once"))
	if err != nil || d.get(t, id).Key != "once" {
		t.Errorf("run %d, %v: it is there", id, err)
	}
}

func TestEnqueue_OfWhoGaveUpBeforeIsNothing(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.store.Enqueue(ctx, report("once"))
	wantError(t, err, context.Canceled, "")
	if errors.Is(err, queue.ErrUnknown) || value[int](t, d, "SELECT count(*) FROM oarlock.runs") != 0 {
		t.Errorf("%v, and a run: nothing was sent", err)
	}
}

func TestEnqueue_WithoutAKeyDoesNotGuess(t *testing.T) {
	t.Parallel()
	d := newClientBundle(t)
	proxy, store := d.through(t)
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
	_, err := store.Enqueue(t.Context(), report(""))
	cut.MustFire(t)
	wantError(t, err, queue.ErrUnknown, "")
	if n := value[int](t, d, "SELECT count(*) FROM oarlock.runs"); n != 1 {
		t.Errorf("%d runs after one lost reply: tried again", n)
	}
}
