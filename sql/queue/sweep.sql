-- Purpose: finds work that claims and looks pass over because they begin where they left off: the first due run of each shelf
--          that a worker serves; lanes in which the first new run may not begin; wake times, deadlines and agenda items that
--          have passed; workers that are gone and left no trace but the runs they hold; and all runs that the database has for
--          this worker. While a session holds an old snapshot, all dead entries are in the way; without the part `claims`, only
--          entries that died since @since are
-- Index: lanes, queues and dags whole; runs_queued, of each shelf from @since on; runs_wake, runs_deadline and agenda_at;
--        runs_worker, for this worker and between the workers that have fences; fences_pkey
-- Locks: none
WITH RECURSIVE lane AS MATERIALIZED (
    SELECT l.lane_id, l.dag_id, l.paused FROM oarlock.lanes_of(@worker) l
), head AS MATERIALIZED (
    SELECT l.lane_id, s.stage, r.ready_at, r.run_id
      FROM lane l
     CROSS JOIN (VALUES (0), (1), (2)) s (stage)
     CROSS JOIN LATERAL (
           SELECT q.ready_at, q.run_id FROM oarlock.runs q
            WHERE q.lane_id = l.lane_id AND q.stage = s.stage AND q.state = 'queued'
              AND q.ready_at >= @since::timestamptz AND q.ready_at <= CASE s.stage WHEN 2 THEN statement_timestamp() ELSE 'infinity' END
              AND (q.stage < 2 OR l.dag_id <> 0 OR q.dag_id <> ALL (ARRAY(SELECT d.dag_id FROM oarlock.dags d WHERE d.paused_by IS NOT NULL OR d.max_active_runs > 0)))
            ORDER BY q.ready_at, q.run_id LIMIT 1) r
     WHERE s.stage < 2 OR NOT l.paused
-- part claims
), own AS MATERIALIZED (
    SELECT r.run_id, r.claim_id FROM oarlock.runs r WHERE r.worker_id = @worker
), gap AS ( -- between the workers that have fences, so that the search skips the entries of all runs that these ever held
    SELECT w.worker_id AS after, lead(w.worker_id, 1, 'ffffffff-ffff-ffff-ffff-ffffffffffff') OVER (ORDER BY w.worker_id) AS before
      FROM (SELECT '00000000-0000-0000-0000-000000000000'::uuid AS worker_id UNION SELECT f.worker_id FROM oarlock.fences f) w
), holder (before, worker_id) AS ( -- from one worker to the next by jumps through the index
    SELECT g.before, (SELECT r.worker_id FROM oarlock.runs r WHERE r.worker_id > g.after AND r.worker_id < g.before ORDER BY r.worker_id LIMIT 1)
      FROM gap g
    UNION ALL
    SELECT h.before, (SELECT r.worker_id FROM oarlock.runs r WHERE r.worker_id > h.worker_id AND r.worker_id < h.before ORDER BY r.worker_id LIMIT 1)
      FROM holder h WHERE h.worker_id IS NOT NULL
-- end claims
)
SELECT statement_timestamp() AS now, ARRAY(SELECT l.lane_id FROM lane l ORDER BY l.lane_id) AS lanes,
       ARRAY(SELECT 3 * h.lane_id::bigint + h.stage FROM head h ORDER BY h.lane_id, h.stage) AS places,
       ARRAY(SELECT h.ready_at FROM head h ORDER BY h.lane_id, h.stage) AS ats,
       ARRAY(SELECT h.run_id FROM head h ORDER BY h.lane_id, h.stage) AS heads,
       CASE WHEN EXISTS (SELECT FROM oarlock.dags d WHERE d.paused_by IS NOT NULL OR d.max_active_runs > 0) THEN
            ARRAY(SELECT l.lane_id FROM lane l
                   WHERE l.dag_id = 0
                     AND (SELECT q.dag_id = ANY (ARRAY(SELECT d.dag_id FROM oarlock.dags d WHERE d.paused_by IS NOT NULL OR d.max_active_runs > 0)) FROM oarlock.runs q
                           WHERE q.lane_id = l.lane_id AND q.stage = 2 AND q.state = 'queued' AND q.ready_at >= @since AND q.ready_at <= statement_timestamp()
                           ORDER BY q.ready_at, q.run_id LIMIT 1)) END AS blocked,
       coalesce((SELECT true FROM oarlock.runs r
                  WHERE r.wake_at >= @since AND r.wake_at <= statement_timestamp() - interval '2 s' ORDER BY r.wake_at LIMIT 1),
                (SELECT true FROM oarlock.runs r
                  WHERE r.state = 'queued' AND r.started_at IS NULL AND r.queue_deadline >= @since AND r.queue_deadline <= statement_timestamp() - interval '2 s'
                  ORDER BY r.queue_deadline LIMIT 1),
                (SELECT true FROM oarlock.agenda a
                  WHERE a.at >= @since AND a.at <= statement_timestamp() - interval '2 s' ORDER BY a.at LIMIT 1), false) AS overdue
       -- part claims
     , ARRAY(SELECT h.worker_id FROM holder h WHERE h.worker_id IS NOT NULL) AS dead,
       ARRAY(SELECT o.run_id FROM own o) AS runs, ARRAY(SELECT o.claim_id FROM own o) AS claims
       -- end claims
