-- Purpose: gives claims of a worker back that nobody drives, `some` or `all`; that counts as no loss
-- Index: runs_worker for all, runs_pkey, lanes_pkey
-- Locks: the runs in the order of their ids, passing over those that somebody holds; their lanes
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
    UPDATE oarlock.runs r SET state = 'queued', claim_id = NULL, worker_id = NULL
     WHERE r.run_id = ANY (ARRAY(SELECT i.run_id FROM idle i)) AND r.worker_id IS NOT DISTINCT FROM @worker -- by key
    RETURNING r.run_id, r.lane_id
), lane AS (
    SELECT q.lane_id, count(*) AS n FROM queued q GROUP BY q.lane_id ORDER BY q.lane_id
), reset AS (
    UPDATE oarlock.lanes l SET resets = l.resets + 1 FROM lane n WHERE l.lane_id = n.lane_id RETURNING oarlock.wake(l.lane_id, n.n)
), told AS (
    SELECT pg_notify(f.channel, 'run:' || q.run_id) FROM queued q JOIN oarlock.followers f USING (run_id)
)
SELECT (SELECT count(*) FROM queued), (SELECT count(*) FROM reset), (SELECT count(*) FROM told)
