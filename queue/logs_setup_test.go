package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// logBundle is a database with a DAG of three steps, with helpers that act as its owner.
type logBundle struct {
	db   *pgtest.DB
	conn *pgx.Conn
}

func newLogBundle(tb testing.TB) *logBundle {
	tb.Helper()
	db := pgtest.NewWithRoles(tb)
	r := &logBundle{db: db, conn: db.Conn(tb)}
	r.exec(tb, `SELECT oarlock.put_dag('{"name": "log", "steps": [{"id": "a", "run": "true"}, {"id": "b", "run": "true"}, {"id": "c", "foreach": {}}]}', '', 'h', '{process}')`)
	return r
}

func (r *logBundle) exec(tb testing.TB, statement string, args ...any) {
	tb.Helper()
	if _, err := r.conn.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// found reads one value as the owner.
func found[T any](tb testing.TB, r *logBundle, question string, args ...any) (answer T) {
	tb.Helper()
	if err := r.conn.QueryRow(tb.Context(), question, args...).Scan(&answer); err != nil {
		tb.Fatalf("%s: %v", question, err)
	}
	return answer
}

// login returns the URL of a new user that has one role and nothing else.
func (r *logBundle) login(tb testing.TB, role string) string {
	tb.Helper()
	return r.db.User(tb, "u"+uuid.NewString()[:8], role)
}

func openStore(tb testing.TB, c Config) *Store {
	tb.Helper()
	store, err := Open(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(store.Close)
	return store
}

// storeOf returns the store of a user with one role.
func (r *logBundle) storeOf(tb testing.TB, role string) *Store {
	tb.Helper()
	return openStore(tb, Config{URL: r.login(tb, role)})
}

// writer is the part of a session that writes logs, and the proxy before it.
type writer struct {
	*Session
	room  *logBundle
	proxy *netfault.Proxy
}

func (r *logBundle) writer(tb testing.TB) *writer {
	tb.Helper()
	proxy, through := netfault.Through(tb, r.login(tb, "oarlock_worker"))
	w := r.writerAt(tb, through)
	w.proxy = proxy
	return w
}

func (r *logBundle) writerAt(tb testing.TB, url string) *writer {
	tb.Helper()
	store := openStore(tb, Config{URL: url})
	id := uuid.New()
	channel := "oarlock_w_" + id.String()
	r.exec(tb, `WITH w AS (INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
		VALUES ($1, 'w', 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, $2) RETURNING worker_id)
		INSERT INTO oarlock.worker_offers (worker_id, offers) SELECT w.worker_id, '{process}' FROM w`, id, channel)
	r.exec(tb, "INSERT INTO oarlock.fences SELECT $1, unnest('{commit,claim,logs,settle}'::text[])", id)
	s := &Session{store: store, worker: Worker{ID: id}, held: newClaimSet(), x: newExchange(), chunks: store.newSessionConns(id).chunks, listener: newSessionListener(store, channel)}
	s.chunks.again = s.chunks.endFormer
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
		defer cancel()
		s.listener.close()
		if err := s.chunks.close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return &writer{Session: s, room: r}
}

const patience = 20 * time.Second

func (r *logBundle) enqueue(tb testing.TB) RunID {
	tb.Helper()
	return found[RunID](tb, r, "SELECT oarlock.enqueue('log')")
}

// hold claims a run for the worker.
func (w *writer) hold(tb testing.TB, run RunID) *Claim {
	tb.Helper()
	c := NewClaim(run, uuid.New())
	w.room.exec(tb, `UPDATE oarlock.runs SET state = 'running', claim_id = $2, worker_id = $3, epoch = epoch + 1, started_at = now(), queue_deadline = NULL
		WHERE run_id = $1`, run, c.ID, w.worker.ID)
	w.held.add(c)
	return c
}

// begin records an attempt as running, as the journal does; an earlier one is superseded. Its log goes to today's partition.
func (w *writer) begin(tb testing.TB, run RunID, task dagrun.TaskID, attempt int) attemptLog {
	tb.Helper()
	day := LogDay(dagrun.Time(time.Now().UnixMilli()))
	w.room.exec(tb, `INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, log_day)
		SELECT run_id, step, item, alt, attempt, generation, 'failed', log_day FROM oarlock.tasks
		 WHERE (run_id, step, item, alt) = ($1, $2, $3, $4) AND attempt < $5`, run, task.Step, task.Item, task.Alt, attempt)
	w.room.exec(tb, `INSERT INTO oarlock.tasks AS t (run_id, step, item, alt, state, attempt, generation, epoch, seq, log_day)
		SELECT $1, $2, $3, $4, 'running', $5, 1, 1, (SELECT coalesce(max(seq), 0) + 1 FROM oarlock.tasks WHERE run_id = $1), $6
		ON CONFLICT (run_id, step, item, alt) DO UPDATE SET attempt = excluded.attempt, seq = excluded.seq, log_day = excluded.log_day`,
		run, task.Step, task.Item, task.Alt, attempt, day)
	return attemptLog{run, task, attempt, day}
}

// attemptLog makes the chunks of an attempt.
type attemptLog struct {
	run     RunID
	task    dagrun.TaskID
	attempt int
	day     time.Time
}

func (l attemptLog) chunk(seq int, text string) Chunk {
	return Chunk{
		Run: l.run, Task: l.task, Attempt: l.attempt, Day: l.day, Seq: seq, Stream: StreamStdout,
		At: time.Now().Truncate(time.Microsecond), Data: []byte(text),
	}
}

func (l attemptLog) last(seq int, reason string) Chunk {
	c := l.chunk(seq, "")
	c.Stream, c.Final, c.Reason = StreamOarlock, true, reason
	return c
}

// end changes a run as its end does.
func (r *logBundle) end(tb testing.TB, run RunID, state string) {
	tb.Helper()
	r.exec(tb, `WITH ended AS (UPDATE oarlock.runs SET state = $2, claim_id = NULL, worker_id = NULL, queue_deadline = NULL, finished_at = clock_timestamp()
		WHERE run_id = $1) SELECT pg_notify(channel, 'run:' || $1::bigint) FROM oarlock.followers WHERE run_id = $1`, run, state)
}

// stored returns the log of a run, one line per chunk.
func (r *logBundle) stored(tb testing.TB, run RunID) []string {
	tb.Helper()
	rows, err := r.conn.Query(tb.Context(), `SELECT concat_ws(' ', step, nullif(item, ''), attempt, seq, convert_from(data, 'UTF8'), reason)
		FROM oarlock.log_chunks WHERE run_id = $1 ORDER BY step, item, alt, attempt, seq`, run)
	if err != nil {
		tb.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	return lines
}

func isCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}
