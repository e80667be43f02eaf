package weight

import (
	"fmt"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	dagCount   = 200
	queueCount = 10
	asked      = 60    // approvals that wait
	fireCount  = 1_000 // fire times of each schedule
	chunkLines = 600   // lines of 100 bytes in a chunk of the long log, which is then nearly of the maximum size
	chunkBytes = 100 * chunkLines
)

// seeds are the objects that pages show.
type seeds struct {
	large  queue.RunID // a foreach with taskCount items; of each hundred, one failed, one runs, one has not begun
	middle queue.RunID // a run in the middle of the list
	lines  int64       // lines in the log of step scan of the large run
}

// seed fills the database and analyzes it.
func (b *testBundle) seed(t *testing.T) seeds {
	t.Helper()
	for i := range dagCount {
		b.put(t, fmt.Sprintf("name: dag-%d\nqueue: queue-%d\nschedule: {name: yearly, cron: '0 3 1 1 *', timezone: UTC}\n"+
			"steps:\n  - {id: load, run: 'true'}\n  - {id: confirm, action: approval, with: {prompt: 'sure?'}, depends: [load]}\n", i, i%queueCount))
	}
	b.put(t, largeDAG)
	b.exec(t, "SET jit = off")
	s := seeds{}
	b.timed(t, "runs", func() { s.middle = b.fillRuns(t) })
	b.timed(t, "the large run", func() { s.large = b.fillRun(t, *taskCount) })
	b.timed(t, "the long log", func() { s.lines = b.fillLog(t, s.large) })
	b.timed(t, "statistics", func() { b.exec(t, "VACUUM ANALYZE") })
	return s
}

func (b *testBundle) timed(t *testing.T, what string, fill func()) {
	t.Helper()
	begun := time.Now()
	fill()
	t.Logf("%s: %v", what, time.Since(begun).Round(time.Millisecond))
}

// fillRuns makes runs of all DAGs, one a second until now, and returns one from the middle. The newest hundredth of the
// runs has not ended: half of these are queued, and the others are scheduled for a year later, run, wait or are paused.
// Of the rest, one in 50 failed, and one in 200 was canceled. Half of all runs have label team, and one of them the label
// rare.
func (b *testBundle) fillRuns(t *testing.T) (middle queue.RunID) {
	t.Helper()
	b.exec(t, `INSERT INTO oarlock.runs (dag_id, version, lane_id, state, reason, params, labels, run_at, ready_at, logical_at, trigger, root_id, submitted_by, claim_id, worker_id,
		       stage, epoch, counts, created_at, started_at, finished_at)
		SELECT v.dag_id, 1, v.lane_id, state, CASE state WHEN 'failed' THEN 'step load failed: exit status 1' ELSE '' END,
		       jsonb_build_object('day', at::date, 'n', i),
		       CASE WHEN i = 10 THEN '{"rare": "yes"}' WHEN i % 2 = 0 THEN jsonb_build_object('team', 'team-' || i % 7) ELSE '{}' END,
		       CASE WHEN ahead THEN at + interval '1 year' ELSE at END, CASE WHEN ahead THEN at + interval '1 year' ELSE at END, at, 'sql', 0, 'x', CASE state WHEN 'running' THEN gen_random_uuid() END,
		       CASE state WHEN 'running' THEN '5eed0000-0000-4000-8000-000000000000'::uuid END, CASE state WHEN 'queued' THEN 2 ELSE 1 END,
		       CASE state WHEN 'queued' THEN 0 ELSE 1 END,
		       '{"total": 2, "open": 0, "succeeded": 2}', at, CASE WHEN state <> 'queued' THEN at + interval '1 s' END,
		       CASE WHEN state IN ('succeeded', 'failed', 'canceled') THEN at + interval '1 min' END
		  FROM (SELECT i, now() - ($1::int - i) * interval '1 s' AS at, i % 16 = 12 AND i > $1::int * 0.99 AS ahead,
		               CASE WHEN i > $1::int * 0.99 THEN (ARRAY['queued', 'running', 'queued', 'waiting', 'queued', 'paused', 'queued', 'queued'])[1 + i % 8]
		                    WHEN i % 50 = 7 THEN 'failed' WHEN i % 200 = 9 THEN 'canceled' ELSE 'succeeded' END AS state
		          FROM generate_series(1, $1::int) i) x
		  JOIN oarlock.dags d ON d.name = 'dag-' || abs(hashint4(i) % $2::int)
		  JOIN oarlock.dag_versions v USING (dag_id)
		 ORDER BY i`, *runCount, dagCount)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, generation, attempt, epoch, seq, deadline)
		SELECT run_id, 1, 'waiting', 1, 1, 1, 1, now() + interval '2 h' FROM oarlock.runs WHERE state = 'waiting' ORDER BY run_id DESC LIMIT $1`, asked)
	b.exec(t, `INSERT INTO oarlock.approvals_open (run_id, step, item, alt, prompt, inputs, since)
		SELECT run_id, step, item, alt, 'Release it?', '[]', now() - interval '5 min' FROM oarlock.tasks WHERE state = 'waiting'`)
	b.exec(t, `INSERT INTO oarlock.fires (schedule_id, logical_at, outcome, run_id)
		SELECT s.schedule_id, now() - i * interval '1 h', CASE WHEN i % 10 = 0 THEN 'skipped' ELSE 'fired' END, CASE WHEN i % 10 <> 0 THEN i END
		  FROM oarlock.schedules s, generate_series(1, $1::int) i`, fireCount)
	if err := b.conn.QueryRow(t.Context(), "SELECT run_id FROM oarlock.runs ORDER BY run_id OFFSET $1 LIMIT 1", *runCount/2).Scan(&middle); err != nil {
		t.Fatal(err)
	}
	return middle
}

const largeDAG = `
name: large
params: [{name: day, type: string, default: "2026-11-20"}]
steps:
  - {id: scan, run: "true"}
  - {id: resize, foreach: {items: [a]}, run: "true", depends: [scan]}
  - {id: notify, run: "true", depends: [resize]}
`

// fillRun makes a failed run with so many items.
func (b *testBundle) fillRun(t *testing.T, items int) queue.RunID {
	t.Helper()
	run := b.enqueue(t, "large")
	b.exec(t, "UPDATE oarlock.runs SET state = 'failed', started_at = now() - interval '1 h', finished_at = now() - interval '1 min', queue_deadline = NULL WHERE run_id = $1", run)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, attempt_at, finished_at, log_day, outputs)
		SELECT $1, 0, 'succeeded', 1, 1, 1, 1, now() - interval '1 h', now() - interval '59 min', now() - interval '58 min', current_date,
		       (SELECT jsonb_object_agg('out' || i, i::text) FROM generate_series(1, 400) i)`, run)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, grown)
		SELECT $1, 1, 'failed', 0, 1, 1, 1, now() - interval '1 h', jsonb_build_object('generation', 1, 'items', (
		       SELECT jsonb_agg(jsonb_build_object('key', 'part-' || i, 'value', '{"name": "part-' || i || '"}')) FROM generate_series(1, $2::int) i))`, run, items)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, item, state, attempt, generation, epoch, seq, started_at, attempt_at, finished_at, reason, log_day)
		SELECT $1, 1, 'part-' || i, state, CASE WHEN i % 1000 = 5 THEN 2 ELSE 1 END, 1, 1, i, at, at, CASE WHEN state <> 'running' THEN at + interval '3 s' END,
		       CASE state WHEN 'failed' THEN 'exit status 1' ELSE '' END, current_date
		  FROM generate_series(1, $2::int) i
		 CROSS JOIN LATERAL (SELECT now() - interval '1 h' + i * interval '1 h' / $2::int AS at,
		                            CASE i % 100 WHEN 1 THEN 'failed' WHEN 3 THEN 'running' ELSE 'succeeded' END AS state) x
		 WHERE i % 100 <> 4`, run, items)
	b.exec(t, `INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state, log_day, started_at, finished_at)
		SELECT $1, 1, 'part-' || i, 0, 1, 1, 'failed', current_date, now() - interval '1 h', now() - interval '59 min' FROM generate_series(5, $2::int, 1000) i`, run, items)
	b.exec(t, `INSERT INTO oarlock.events (run_id, kind, step, item, alt, worker)
		SELECT $1, CASE WHEN i % 2 = 0 THEN 'skip' ELSE 'lost' END, CASE WHEN i % 2 = 0 THEN 1 END, 'part-' || i, 0, 'worker' FROM generate_series(1, $2::int) i`, run, items)
	return run
}

// fillLog gives step scan a long log, and the first item a short one. Each line has its number and text that does not
// compress.
func (b *testBundle) fillLog(t *testing.T, run queue.RunID) (lines int64) {
	t.Helper()
	chunks := *logMiB << 20 / chunkBytes
	b.exec(t, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, lines)
		SELECT current_date, $1, 0, '', 0, 1, n, 1 + n / 5 % 2, now() - ($2::int - n) * interval '1 ms',
		       convert_to((SELECT string_agg(rpad(n || ' ' || md5(n || 'a' || i) || md5(i || 'b' || n) || md5(i || 'c' || n), $4::int / $3::int - 1) || E'\n', '') FROM generate_series(1, $3::int) i), 'UTF8'),
		       (n + 1) * $3::bigint
		  FROM generate_series(0, $2::int - 1) n`, run, chunks, chunkLines, chunkBytes)
	b.exec(t, `INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data, lines)
		SELECT current_date, $1, 1, 'part-1', 0, 1, 0, 2, now(), convert_to(repeat(E'it failed\n', 100), 'UTF8'), 100`, run)
	return int64(chunks) * chunkLines
}
