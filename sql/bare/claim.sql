-- Purpose: claims many runs with no engine around it: no fence, limits, pauses or cursors, and no other worker to share with.
--          Only benchmarks send it
-- Index: runs_queued, runs_pkey
-- Locks: the runs, passing over locked ones
WITH picked AS MATERIALIZED (
    SELECT r.run_id FROM oarlock.runs r
     WHERE r.lane_id = (SELECT v.lane_id FROM oarlock.dag_versions v ORDER BY v.dag_id, v.version LIMIT 1) AND r.state = 'queued'
     ORDER BY r.stage, r.ready_at, r.run_id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE oarlock.runs r
   SET state = 'running', claim_id = gen_random_uuid(), worker_id = $1, epoch = r.epoch + 1, started_at = clock_timestamp()
  FROM picked p WHERE r.run_id = p.run_id
RETURNING r.run_id, r.claim_id
