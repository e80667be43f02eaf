package queue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// journalBundle is a database with a worker that has fences and a journal. The worker's login has only the role of a worker.
type journalBundle struct {
	tb     testing.TB
	db     *pgtest.DB
	conn   *pgx.Conn // the owner's
	url    string    // of a login that has only oarlock_worker
	worker uuid.UUID
	held   *claimSet
	reads  *dedicatedConn // made when a test first loads by it
	lost   chan struct{}  // closed when the journal says that the session is lost
	*journal
}

const twoSteps = `{"name": "two", "steps": [{"id": "a", "run": "true"}, {"id": "b", "run": "true", "depends": ["a"]}]}`

func newJournalBundle(tb testing.TB) *journalBundle {
	tb.Helper()
	y := &journalBundle{tb: tb, db: pgtest.NewWithRoles(tb)}
	y.conn = y.db.Conn(tb)
	y.exec("SELECT oarlock.put_dag($1::jsonb, 'source', 'hash', '{process}')", twoSteps)
	y.url = y.db.Login(tb, "oarlock_worker")
	y.worker = y.addWorker()
	y.journal, y.held, y.lost = y.open(y.url, 0)
	return y
}

// through returns a journalBundle with a journal that talks through a proxy, and that gives up a flush after a moment.
func through(tb testing.TB) (*journalBundle, *netfault.Proxy) {
	tb.Helper()
	y := newJournalBundle(tb)
	proxy, url := netfault.Through(tb, y.url)
	y.journal, y.held, y.lost = y.open(url, hasty)
	return y, proxy
}

// hasty is long enough for a flush that nothing hinders, on a busy machine.
const hasty = 700 * time.Millisecond

func (y *journalBundle) addWorker() uuid.UUID {
	y.tb.Helper()
	id := uuid.New()
	y.exec(`WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
		VALUES ($1::uuid, 'w1', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, 'oarlock_' || replace($1::uuid::text, '-', '')) RETURNING worker_id)
		INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM w`, id)
	y.exec("INSERT INTO oarlock.fences SELECT $1, unnest('{commit,claim,logs,settle}'::text[])", id)
	return id
}

// open returns a journal of the worker. The end of the test closes it.
func (y *journalBundle) open(url string, timeout time.Duration) (*journal, *claimSet, chan struct{}) {
	y.tb.Helper()
	config, err := pglink.Parse(url, pglink.Options{})
	if err != nil {
		y.tb.Fatal(err)
	}
	pglink.AsWriter(config, appName(y.worker))
	pglink.AsFlush(config)
	held, lost := newClaimSet(), make(chan struct{})
	j := newJournal(journalConfig{
		worker: y.worker, name: "w1", conn: newDedicatedConn(config), held: held, timeout: timeout, lost: sync.OnceFunc(func() { close(lost) }), doubt: func() {},
	})
	y.tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = j.close(ctx)
	})
	return j, held, lost
}

// claim makes a run of the DAG that the worker has claimed.
func (y *journalBundle) claim() *Claim { return y.claims(1)[0] }

func (y *journalBundle) claims(n int) []*Claim {
	y.tb.Helper()
	rows, err := y.conn.Query(y.tb.Context(), `
		INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, ready_at, logical_at, trigger, root_id, submitted_by, claim_id, worker_id, epoch)
		SELECT d.dag_id, 1, v.lane_id, 'running', clock_timestamp(), clock_timestamp(), clock_timestamp(), 'sql', 1, 'test', gen_random_uuid(), $1, 1
		  FROM oarlock.dags d JOIN oarlock.dag_versions v USING (dag_id), generate_series(1, $2::int)
		RETURNING run_id, claim_id, epoch, lane_id`, y.worker, n)
	if err != nil {
		y.tb.Fatal(err)
	}
	claims, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Claim, error) {
		c := NewClaim(0, uuid.Nil)
		return c, row.Scan(&c.Run, &c.ID, &c.Epoch, &c.Lane)
	})
	if err != nil {
		y.tb.Fatal(err)
	}
	for _, c := range claims {
		y.held.add(c)
	}
	return claims
}

// childOf makes a claimed run that a step of another one waits for.
func (y *journalBundle) childOf(parent *Claim) *Claim {
	y.tb.Helper()
	c := y.claim()
	c.Parent = parent.Run
	y.exec("UPDATE oarlock.runs SET parent_run = $2, parent_step = 0, parent_item = '', parent_alt = 0 WHERE run_id = $1", c.Run, parent.Run)
	return c
}

func (y *journalBundle) exec(statement string, args ...any) {
	y.tb.Helper()
	if _, err := y.conn.Exec(y.tb.Context(), statement, args...); err != nil {
		y.tb.Fatalf("%s: %v", statement, err)
	}
}

// get reads one value.
func get[T any](y *journalBundle, query string, args ...any) (v T) {
	y.tb.Helper()
	if err := y.conn.QueryRow(y.tb.Context(), query, args...).Scan(&v); err != nil {
		y.tb.Fatalf("%s: %v", query, err)
	}
	return v
}

// list reads one column of texts.
func (y *journalBundle) list(query string, args ...any) []string {
	y.tb.Helper()
	rows, err := y.conn.Query(y.tb.Context(), query, args...)
	if err != nil {
		y.tb.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		y.tb.Fatal(err)
	}
	return list
}

// eventually polls until ok, or fails the test.
func (y *journalBundle) eventually(what string, ok func() bool) {
	y.tb.Helper()
	await.True(y.tb, what, ok)
}

// begin opens a transaction of another session. It is rolled back at the end of the test.
func (y *journalBundle) begin() pgx.Tx {
	y.tb.Helper()
	tx, err := y.db.Conn(y.tb).Begin(y.tb.Context())
	if err != nil {
		y.tb.Fatal(err)
	}
	y.tb.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func (y *journalBundle) in(tx pgx.Tx, statement string, args ...any) {
	y.tb.Helper()
	if _, err := tx.Exec(y.tb.Context(), statement, args...); err != nil {
		y.tb.Fatalf("%s: %v", statement, err)
	}
}

func (y *journalBundle) end(tx pgx.Tx) {
	y.tb.Helper()
	if err := tx.Commit(y.tb.Context()); err != nil {
		y.tb.Fatal(err)
	}
}

// blocked waits until a connection with application_name appName waits for a lock that tx holds.
func (y *journalBundle) blocked(tx pgx.Tx, appName string) {
	y.tb.Helper()
	pid := tx.Conn().PgConn().PID()
	y.eventually("a session is blocked", func() bool {
		return get[bool](y, `SELECT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = current_database()
			AND a.application_name = $1 AND $2::int = ANY (pg_blocking_pids(a.pid)))`, appName, pid)
	})
}

// later commits without waiting; the channel has the outcome.
func (y *journalBundle) later(b *Batch) <-chan error {
	done := make(chan error, 1)
	go func() { done <- y.commit(context.Background(), b) }()
	return done
}

func (y *journalBundle) must(err error) {
	y.tb.Helper()
	if err != nil {
		y.tb.Fatal(err)
	}
}

// await returns the outcome of a commit that was begun with later.
func (y *journalBundle) outcome(done <-chan error) error {
	y.tb.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		y.tb.Fatal("the commit does not return")
		return nil
	}
}

// taskAt returns a record of a step in some state.
func taskAt(step int, seq int64, state dagrun.State) dagrun.TaskRecord {
	t := dagrun.TaskRecord{ID: dagrun.TaskID{Step: step}, Seq: seq, Generation: 1, State: state, Attempt: 1, StartedAt: 1000, AttemptAt: 1000}
	if state.Terminal() {
		t.FinishedAt = 2000
	}
	return t
}

func batch(c *Claim, tasks ...dagrun.TaskRecord) *Batch {
	return &Batch{Claim: c, Seen: c.Inbox, Records: dagrun.Records{Tasks: tasks}}
}

// finishing returns a batch that ends the run.
func finishing(c *Claim, state dagrun.RunState, tasks ...dagrun.TaskRecord) *Batch {
	b := batch(c, tasks...)
	b.Records.Run = &dagrun.RunRecord{State: state, Generation: 1, StartedAt: 1000, FinishedAt: 3000, Reason: "because"}
	b.Result = &dagrun.Verdict{State: state, Reason: "because"}
	return b
}

// parking returns a batch that parks the run.
func parking(c *Claim, tasks ...dagrun.TaskRecord) *Batch {
	b := batch(c, tasks...)
	b.Records.Run = &dagrun.RunRecord{State: dagrun.RunWaiting, Generation: 1, StartedAt: 1000, Reason: "waits"}
	b.Leave = &dagrun.Leave{}
	return b
}

func (y *journalBundle) runState(c *Claim) string {
	y.tb.Helper()
	return get[string](y, "SELECT state FROM oarlock.runs WHERE run_id = $1", c.Run)
}

// tasks lists the stored tasks of a run: step state seq.
func (y *journalBundle) tasks(c *Claim) []string {
	y.tb.Helper()
	return y.list("SELECT concat_ws(' ', step, state, seq) FROM oarlock.tasks WHERE run_id = $1 ORDER BY step, item, alt", c.Run)
}

// forfeited wants the driver to learn that its claim is gone.
func (y *journalBundle) forfeited(c *Claim) {
	y.tb.Helper()
	select {
	case <-c.Lost():
	default:
		y.tb.Errorf("the driver of run %d does not hear that its claim is gone", c.Run)
	}
}
