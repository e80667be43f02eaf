package postgres_test

import (
	"context"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/action/postgres"
)

const patience = 20 * time.Second

// testBundle is a database with a table, and a login with the rights of a worker that may also write to the table.
type testBundle struct {
	tb     testing.TB
	db     *pgtest.DB
	conn   *pgx.Conn // the owner's
	url    string    // of a worker
	tasks  string    // of its tasks
	owner  *queue.Store
	worker *queue.Store
	log    await.Buffer // of all tasks
}

func setup(tb testing.TB) *testBundle {
	tb.Helper()
	y := &testBundle{tb: tb, db: pgtest.NewWithRoles(tb)}
	y.conn = y.db.Conn(tb)
	y.exec("CREATE TABLE ledger (id bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL UNIQUE)")
	y.url, y.tasks = y.login("worker", "oarlock_worker"), y.login("tasks", "oarlock_worker")
	y.owner, y.worker = y.open(y.db.URL), y.open(y.url)
	return y
}

func (y *testBundle) open(url string) *queue.Store {
	y.tb.Helper()
	store, err := queue.Open(y.tb.Context(), queue.Config{URL: url})
	y.must(err)
	y.tb.Cleanup(store.Close)
	return store
}

// login returns the URL of a new login with some roles that may write to the ledger.
func (y *testBundle) login(name string, roles ...string) string {
	y.tb.Helper()
	u, err := url.Parse(y.db.User(y.tb, name, roles...))
	y.must(err)
	y.exec("GRANT ALL ON ledger TO " + y.db.RoleName(name))
	q := u.Query()
	q.Set("connect_timeout", "60") // many at once, on a busy machine
	u.RawQuery = q.Encode()
	return u.String()
}

func (y *testBundle) must(err error) {
	y.tb.Helper()
	if err != nil {
		y.tb.Fatal(err)
	}
}

func (y *testBundle) exec(statement string, args ...any) {
	y.tb.Helper()
	if _, err := y.conn.Exec(context.WithoutCancel(y.tb.Context()), statement, args...); err != nil {
		y.tb.Fatalf("%s: %v", statement, err)
	}
}

func get[T any](y *testBundle, query string, args ...any) (v T) {
	y.tb.Helper()
	if err := y.conn.QueryRow(y.tb.Context(), query, args...).Scan(&v); err != nil {
		y.tb.Fatalf("%s: %v", query, err)
	}
	return v
}

func (y *testBundle) wantRows(want int) {
	y.tb.Helper()
	if got := get[int](y, "SELECT count(*) FROM ledger"); got != want {
		y.tb.Errorf("%d rows in the ledger, want %d", got, want)
	}
}

// eventually polls until ok, or fails the test.
func (y *testBundle) eventually(what string, ok func() bool) {
	y.tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			y.tb.Fatalf("waited in vain: %s: %s", what, y.log.String())
		}
	}
}

// action has one connection, own, to the bundle's database.
func (y *testBundle) action(change ...func(*postgres.Config)) *postgres.Action {
	y.tb.Helper()
	c := postgres.Config{Connections: map[string]postgres.Connection{postgres.Own: {URL: y.tasks}}}
	for _, f := range change {
		f(&c)
	}
	a, err := postgres.New(c)
	y.must(err)
	y.tb.Cleanup(a.Close)
	return a
}

func through(url string) func(*postgres.Config) {
	return func(c *postgres.Config) { c.Connections[postgres.Own] = postgres.Connection{URL: url} }
}

// call is a task that belongs to no run: nothing is settled.
type call struct {
	out, log await.Buffer
	task     *worker.Task
}

func newCall(with map[string]any, outputs ...dagspec.Output) *call {
	c := &call{}
	c.task = &worker.Task{
		Run: 41, Step: "load", Item: "eu", Attempt: 2, Body: &dagspec.Step{Outputs: outputs}, Resolved: &dagspec.Resolved{With: with},
		Stdout: &c.out, Stderr: &c.log, Started: func() {}, Now: make(chan struct{}),
	}
	return c
}

type with = map[string]any

// do executes a task that belongs to no run.
func (y *testBundle) do(a *postgres.Action, w with, outputs ...dagspec.Output) (dagrun.Result, *call) {
	c := newCall(w, outputs...)
	return a.Execute(y.tb.Context(), c.task), c
}

// reader gives a worker the reads of versions of the queue without a cache.
type reader struct{ *queue.Session }

func (reader) Cached(context.Context, queue.RunID, string, string, bool) (dagrun.JSON, bool, error) {
	return "", false, nil
}

// writer gives a worker the writes of versions of the queue that fail no run.
type writer struct{ *queue.Session }

func (w writer) FailRun(ctx context.Context, c *queue.Claim, _ error) error {
	return w.Release(ctx, c, false, 0)
}

// execute is an executor made of a function.
type execute func(ctx context.Context, task *worker.Task) dagrun.Result

func (f execute) Execute(ctx context.Context, task *worker.Task) dagrun.Result { return f(ctx, task) }

// hand is one worker, with its settler.
type hand struct {
	*worker.Worker
	ids    chan uuid.UUID
	settle func(ctx context.Context, inner *queue.Session, tx pgx.Tx, s queue.Settlement) error
}

// settler lets a test do something when a task settles.
type settler struct {
	session *queue.Session
	hand    *hand
}

func (s settler) SettleTx(ctx context.Context, tx pgx.Tx, r queue.Settlement) error {
	if s.hand.settle != nil {
		return s.hand.settle(ctx, s.session, tx, r)
	}
	return s.session.SettleTx(ctx, tx, r)
}

// work starts a worker that offers an executor as postgres.query and as my.func; the test stops it.
func (y *testBundle) work(a *postgres.Action, e worker.Executor, change ...func(*hand, *worker.Config)) *hand {
	y.tb.Helper()
	h := &hand{ids: make(chan uuid.UUID, 10)}
	c := worker.Config{
		Register: func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := y.worker.Register(ctx, w)
			if err != nil {
				return worker.Session{}, err
			}
			a.Use(settler{s, h}, s.ID())
			h.ids <- s.ID()
			return worker.Session{Claimer: s, Reader: reader{s}, Writer: writer{s}, Lease: s}, nil
		},
		Cancel: func(context.Context, queue.RunID, bool) error { return nil },
		Self:   queue.Worker{Name: "w", Host: "h", BootID: "b", PID: 1, Version: "v", Containment: "none"}, Slots: 8,
		Executors: map[string]worker.Executor{"action:postgres.query": e, "action:my.func": e},
		Offers:    []string{"process"},
		Logs:      func(worker.Writer, func() time.Time) worker.Logs { return logs{y} },
	}
	for _, f := range change {
		f(h, &c)
	}
	w, err := worker.New(c)
	y.must(err)
	h.Worker = w
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.WithoutCancel(y.tb.Context())) }()
	y.tb.Cleanup(func() {
		w.StopNow()
		<-ended
	})
	return h
}

// logs writes the logs of all tasks to one buffer.
type logs struct{ y *testBundle }

func (l logs) Open(worker.LogName) worker.Log { return attemptLog(l) }
func (logs) Close()                           {}

type attemptLog struct{ y *testBundle }

func (l attemptLog) Stdout() io.Writer { return &l.y.log }
func (l attemptLog) Stderr() io.Writer { return &l.y.log }
func (attemptLog) Mask([]string)       {}

func (attemptLog) Close(context.Context, string) ([]queue.Chunk, string) { return nil, "" }

// run enters a run of a DAG with this step, and with these lines.
func (y *testBundle) run(step string, lines ...string) queue.RunID {
	y.tb.Helper()
	source := "name: d\nsteps: [" + step + "]\n" + strings.Join(lines, "\n")
	spec, err := dagspec.Parse("d.yaml", []byte(source))
	y.must(err)
	_, err = y.owner.PutDAG(y.tb.Context(), spec, source, "")
	y.must(err)
	id, err := y.owner.Enqueue(y.tb.Context(), queue.Request{DAG: "d"})
	y.must(err)
	return id
}

const insert = "{id: a, action: postgres.query, with: {sql: INSERT INTO ledger (key) VALUES ($1) RETURNING id, params: [a]}}"

// await waits for the end of a run, and returns how it ended.
func (y *testBundle) await(id queue.RunID) string {
	y.tb.Helper()
	var r *queue.Run
	y.eventually("the run ends", func() bool {
		var err error
		r, err = y.owner.Get(y.tb.Context(), id)
		y.must(err)
		return r.Over()
	})
	return strings.TrimSpace(r.State + " " + r.Reason)
}
