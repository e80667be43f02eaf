-- Purpose: gives back claims of a worker that no driver drives, `some` or `all` of them; this counts as no loss. A run of which
--          nothing has happened in this generation is queued as if it had never been claimed. Any other run is queued as one
--          that may need no slot: since the claim, no row tells when something of it is due
-- Index: runs_worker for all, runs_pkey, tasks_pkey, runs_parent
-- Locks: the runs in the order of their ids, passing over runs that another session holds
WITH idle AS MATERIALIZED (
    SELECT r.run_id FROM oarlock.runs r
     WHERE r.claim_id IS NOT NULL
       -- part all
       AND r.worker_id = @worker
       -- end all
       -- part some
       AND r.run_id = ANY (@runs::bigint[]) AND r.claim_id = ANY (@claims::uuid[])
       -- end some
     ORDER BY r.run_id + 0 LIMIT @batch FOR NO KEY UPDATE SKIP LOCKED -- + 0: in the order of the key, the plan would go through all runs there are
), queued AS (
    UPDATE oarlock.runs r SET state = 'queued', claim_id = NULL, worker_id = NULL,
           stage = CASE WHEN i.acted THEN 0 ELSE 2 END,
           ready_at = CASE WHEN i.acted THEN clock_timestamp() WHEN r.stage = 2 THEN r.ready_at
                           ELSE oarlock.place_of(r.run_id, r.run_at, clock_timestamp()) END,
           started_at = CASE WHEN i.acted THEN r.started_at END, deadline = CASE WHEN i.acted THEN r.deadline END
      FROM (SELECT i.run_id, r.ending <> '' OR r.paused_by <> ''
                   OR EXISTS (SELECT FROM oarlock.tasks t WHERE t.run_id = r.run_id AND t.generation = r.generation)
                   OR EXISTS (SELECT FROM oarlock.runs k WHERE k.parent_run = r.run_id AND k.finished_at IS NULL) AS acted
              FROM idle i JOIN oarlock.runs r USING (run_id)) i
     WHERE r.run_id = i.run_id AND r.worker_id IS NOT DISTINCT FROM @worker -- keeps the plan on the key
    RETURNING r.run_id, r.lane_id, r.ready_at
), woken AS (
    SELECT oarlock.wake(q.lane_id, count(*), at => min(q.ready_at)) FROM queued q GROUP BY q.lane_id
), told AS (
    SELECT pg_notify(f.channel, 'run:' || q.run_id) FROM queued q JOIN oarlock.followers f USING (run_id)
)
SELECT (SELECT count(*) FROM queued), (SELECT count(*) FROM woken), (SELECT count(*) FROM told)
