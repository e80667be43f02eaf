-- Purpose: claims due runs of the lanes that a worker serves and that no limit holds up
-- Index: fences_pkey, workers_pkey; lanes, queues and dags whole; runs_queued, of each shelf from its cursor on; runs_pkey
-- Locks: the worker's claim fence FOR NO KEY UPDATE, then each run it claims, passing over locked ones; the worker's own row in
--        workers, only if hungry or least changes
WITH worker AS MATERIALIZED (
    SELECT w.worker_id, w.state, w.hungry > 0 AS hungry, w.least
      FROM oarlock.fences f JOIN oarlock.workers w USING (worker_id)
     WHERE f.worker_id = @worker AND f.channel = 'claim'
       FOR NO KEY UPDATE OF f
), lane AS MATERIALIZED (
    SELECT l.* FROM worker CROSS JOIN oarlock.lanes_of(@worker) l WHERE worker.state = 'live'
), shelf AS MATERIALIZED ( -- the runs of a lane in a stage. A pause, the clock and @skip hold up new runs only, which are in stage 2
    SELECT l.lane_id, l.priority, s.stage, CASE WHEN (@shelves::bigint[])[p.i] = 3 * l.lane_id::bigint + s.stage THEN (@cursors::timestamptz[])[p.i] ELSE @rest::timestamptz END AS since,
           CASE s.stage WHEN 2 THEN statement_timestamp() ELSE 'infinity' END AS until
      FROM lane l
     CROSS JOIN (VALUES (0), (1), (2)) s (stage)
     -- width_bucket finds a shelf by halving the array. A join would read the whole array for each shelf, because hash joins are off.
     CROSS JOIN LATERAL (SELECT width_bucket(3 * l.lane_id::bigint + s.stage, @shelves::bigint[])) p (i)
     WHERE NOT l.limited AND (s.stage < 2 OR NOT l.paused AND l.lane_id <> ALL (@skip::int[]))
     ORDER BY CASE WHEN NOT @fair::bool THEN l.priority END DESC, CASE WHEN NOT @fair THEN array_position(@queues::text[], l.queue) END NULLS FIRST,
              CASE WHEN @fair OR s.stage = 0 THEN 0 WHEN @new_first::bool THEN 3 - s.stage ELSE s.stage END, since
), picked AS MATERIALIZED ( -- shelf by shelf, each in the order of its index: a sort would lock runs that are not claimed
    SELECT r.run_id
      FROM shelf CROSS JOIN LATERAL (
           SELECT q.run_id FROM oarlock.runs q
            WHERE q.lane_id = shelf.lane_id AND q.stage = shelf.stage AND q.state = 'queued' AND q.ready_at >= shelf.since AND q.ready_at <= shelf.until
              AND (q.stage < 2 OR q.dag_id <> ALL (ARRAY(SELECT d.dag_id FROM oarlock.dags d WHERE d.paused_by IS NOT NULL OR d.max_active_runs > 0)))
            ORDER BY q.ready_at, q.run_id LIMIT @want::int FOR NO KEY UPDATE SKIP LOCKED) r
     WHERE shelf.stage <= @stage::int AND shelf.priority >= @lowest::int
     LIMIT @want
), claimed AS ( -- by key: this statement has locked the rows
    UPDATE oarlock.claims c
       SET state = 'running', claim_id = p.claim_id, worker_id = @worker, epoch = c.epoch + 1, wake_at = NULL,
           started_at = coalesce(c.started_at, date_trunc('milliseconds', statement_timestamp())) -- so that the driver need not write the row when it begins
      FROM unnest(ARRAY(SELECT run_id FROM picked), @claims::uuid[]) p (run_id, claim_id)
     WHERE c.run_id = p.run_id
    RETURNING c.*
), told AS ( -- only if it changes: each enqueue looks for hungry workers, and would read one more dead row version
    UPDATE oarlock.workers w SET hungry = n.hungry, least = @least
      FROM worker, (SELECT greatest(@free::int - count(*), 0) AS hungry FROM picked) n
     WHERE w.worker_id = worker.worker_id AND worker.state = 'live' AND (worker.hungry <> (n.hungry > 0) OR worker.least IS DISTINCT FROM @least::int)
)
SELECT EXISTS (SELECT FROM worker) AS fenced, statement_timestamp() AS now, EXISTS (SELECT FROM lane l WHERE l.limited) AS limits,
       d.name, l.queue, l.priority, c.*
  FROM (SELECT) one
  LEFT JOIN claimed c ON true
  LEFT JOIN oarlock.dags d ON d.dag_id = c.dag_id
  LEFT JOIN oarlock.lanes l ON l.lane_id = c.lane_id
