-- Purpose: for the duties of a worker beside its own runs: its peers, dead workers that left fences, runs to wake or to expire,
--          the next due item of the agenda, and the lanes that have a due run
-- Index: workers and fences, small tables, whole; runs_wake, runs_deadline and agenda_at, from where nothing was due last; runs_queued, of each shelf from its cursor on; lanes, queues and dags whole
-- Locks: the worker's own row in workers, only if busy or waiting changes
WITH shown AS (
    UPDATE oarlock.workers w SET busy = @busy, waiting = @waiting
     WHERE w.worker_id = @worker AND w.state = 'live' AND (w.busy, w.waiting) <> (@busy::int, @waiting::int)
), lane AS MATERIALIZED (
    SELECT l.* FROM oarlock.lanes_of(@worker) l
), head AS MATERIALIZED ( -- the shelves that have a due run at or behind the cursor of claims
    SELECT l.lane_id, s.stage, l.priority, l.limited, c.since
      FROM lane l
     CROSS JOIN (VALUES (0), (1), (2)) s (stage)
     -- width_bucket finds a shelf by halving the array. A join would read the whole array for each shelf, because hash joins are off.
     CROSS JOIN LATERAL (SELECT width_bucket(3 * l.lane_id::bigint + s.stage, @shelves::bigint[])) p (i)
     CROSS JOIN LATERAL (SELECT CASE WHEN (@shelves::bigint[])[p.i] = 3 * l.lane_id::bigint + s.stage THEN (@cursors::timestamptz[])[p.i] ELSE @rest::timestamptz END) c (since)
     CROSS JOIN LATERAL (
           SELECT FROM oarlock.runs q
            WHERE q.lane_id = l.lane_id AND q.stage = s.stage AND q.state = 'queued'
              AND q.ready_at >= c.since
              AND q.ready_at <= CASE s.stage WHEN 2 THEN statement_timestamp() ELSE 'infinity' END
              AND (q.stage < 2 OR l.dag_id <> 0 OR q.dag_id <> ALL (ARRAY(SELECT d.dag_id FROM oarlock.dags d WHERE d.paused_by IS NOT NULL OR d.max_active_runs > 0)))
            ORDER BY q.ready_at, q.run_id LIMIT 1) r
     WHERE s.stage < 2 OR NOT l.paused
), peer AS (
    SELECT w.worker_id, w.beat, w.ttl_ms, w.state = 'live' AND w.unfit = '' AND w.only_run IS NULL AS live FROM oarlock.workers w
     WHERE w.state IN ('live', 'draining') AND w.worker_id <> @worker
), shared AS ( -- of the lanes of runs that wait for slots here, the ones that another worker may serve
    SELECT DISTINCT l.lane_id
      FROM oarlock.lanes l
      JOIN peer p ON p.live AND p.worker_id <> ALL (@quiet::uuid[])
      JOIN oarlock.workers w ON w.worker_id = p.worker_id
       AND oarlock.may_serve(w, (SELECT o.offers FROM oarlock.worker_offers o WHERE o.worker_id = w.worker_id), l)
     WHERE l.lane_id = ANY (@stalled::int[])
)
SELECT statement_timestamp() AS now,
       (SELECT max(h.priority) FROM head h WHERE NOT h.limited) AS open_top,
       (SELECT max(h.priority) FROM head h WHERE h.limited) AS limited_top,
       (SELECT count(*) FROM (
            SELECT FROM head h CROSS JOIN LATERAL (
                   SELECT FROM oarlock.runs q
                    WHERE q.lane_id = h.lane_id AND q.stage = 1 AND q.state = 'queued' AND q.ready_at >= h.since
                    ORDER BY q.ready_at, q.run_id LIMIT @begun::int) r
             WHERE h.stage = 1 LIMIT @begun) b) AS begun,
       (SELECT true FROM oarlock.runs r
         WHERE r.wake_at > @slept::timestamptz AND r.wake_at <= statement_timestamp() ORDER BY r.wake_at LIMIT 1) IS NOT NULL AS wakes,
       (SELECT true FROM oarlock.runs r
         WHERE r.state = 'queued' AND r.started_at IS NULL AND r.queue_deadline > @waited::timestamptz AND r.queue_deadline <= statement_timestamp() ORDER BY r.queue_deadline LIMIT 1) IS NOT NULL AS expires,
       (SELECT a.at FROM oarlock.agenda a
         WHERE a.at > @attended::timestamptz AND a.at <= statement_timestamp() ORDER BY a.at LIMIT 1) AS agenda,
       ARRAY(SELECT f.worker_id FROM oarlock.fences f JOIN oarlock.workers w ON w.worker_id = f.worker_id AND w.state IN ('lost', 'gone')) AS dead,
       (SELECT array_agg(p.worker_id ORDER BY p.worker_id) FROM peer p) AS peers,
       (SELECT array_agg(p.beat ORDER BY p.worker_id) FROM peer p) AS beats,
       (SELECT array_agg(p.ttl_ms ORDER BY p.worker_id) FROM peer p) AS ttls,
       (SELECT array_agg(p.live ORDER BY p.worker_id) FROM peer p) AS lives,
       ARRAY(SELECT s.lane_id FROM shared s ORDER BY s.lane_id) AS shared
