-- Purpose: claims due runs of one family, whatever lane they are in: for a worker that serves nothing else. Those behind a limit only with @queue or @dag, after queue/gates in the same transaction, so that it sees what others claimed before
-- Index: runs_pkey, runs_parent; fences_pkey, workers_pkey; behind a limit also runs_worker, runs_set_aside and runs_begun
-- Locks: the worker's claim fence FOR NO KEY UPDATE, then each run it claims, passing over those that are locked
WITH RECURSIVE fence AS MATERIALIZED (
    SELECT f.worker_id FROM oarlock.fences f JOIN oarlock.workers w ON w.worker_id = f.worker_id AND w.state = 'live'
     WHERE f.worker_id = @worker AND f.channel = 'claim'
       FOR NO KEY UPDATE OF f
), family (run_id) AS (
    SELECT r.run_id FROM fence, oarlock.runs r WHERE r.run_id = @root::bigint
    UNION ALL
    SELECT c.run_id FROM family f JOIN oarlock.runs c ON c.parent_run = f.run_id
), room AS MATERIALIZED (
    SELECT CASE WHEN @queue::text IS NULL THEN @want::int ELSE least(@want, (
               SELECT q.max_running FROM oarlock.queues q WHERE q.name = @queue) - (
               SELECT count(*) FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.worker_id IS NOT NULL AND l.queue = @queue)) END AS any,
           CASE WHEN @dag::bigint IS NULL THEN @want ELSE least(@want, (
               SELECT d.max_active_runs FROM oarlock.dags d WHERE d.dag_id = @dag) - (
               SELECT count(*) FROM oarlock.runs r WHERE r.worker_id IS NOT NULL AND r.dag_id = @dag) - (
               SELECT count(*) FROM oarlock.runs r WHERE r.dag_id = @dag AND r.epoch > 0 AND r.worker_id IS NULL
                  AND r.state IN ('queued', 'waiting', 'paused') AND r.started_at IS NOT NULL)) END AS fresh
), picked AS MATERIALIZED (
    SELECT r.run_id
      FROM family f JOIN oarlock.runs r USING (run_id)
      JOIN oarlock.lanes l USING (lane_id) JOIN oarlock.queues q ON q.name = l.queue JOIN oarlock.dags d ON d.dag_id = r.dag_id
     WHERE r.state = 'queued' AND (r.run_at <= statement_timestamp() OR r.epoch > 0) -- what has begun goes on, whatever became of the clock
       AND (r.started_at IS NOT NULL OR q.paused_by IS NULL AND d.paused_by IS NULL AND (SELECT m.fresh > 0 FROM room m))
       AND CASE WHEN q.max_running > 0 THEN l.queue END IS NOT DISTINCT FROM @queue
       AND CASE WHEN d.max_active_runs > 0 THEN d.dag_id END IS NOT DISTINCT FROM @dag
     ORDER BY r.run_at, r.run_id
     LIMIT (SELECT greatest(CASE WHEN @dag IS NULL THEN m.any ELSE least(m.any, 1) END, 0) FROM room m)
       FOR NO KEY UPDATE OF r SKIP LOCKED
), claimed AS (
    UPDATE oarlock.claims c
       SET state = 'running', claim_id = p.claim_id, worker_id = @worker, epoch = c.epoch + 1, wake_at = NULL,
           started_at = coalesce(c.started_at, date_trunc('milliseconds', statement_timestamp())) -- so that its driver need not write the row when it begins
      FROM unnest(ARRAY(SELECT run_id FROM picked), @claims::uuid[]) p (run_id, claim_id)
     WHERE c.run_id = p.run_id
    RETURNING (c.started_at <> date_trunc('milliseconds', statement_timestamp()))::int AS begun, c.*
)
SELECT d.name, c.*
  FROM claimed c JOIN oarlock.dags d ON d.dag_id = c.dag_id
