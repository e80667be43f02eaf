-- Purpose: S12: where a run stands in the queue says whether it has begun: limits count by it, and a pause goes by it. A row here is held by no
--          worker, has not ended, and says otherwise
-- Index: runs_queued, runs_rare
-- Locks: none
SELECT r.run_id, r.state, r.stage, r.started_at
  FROM oarlock.runs r
 WHERE r.state IN ('queued', 'waiting', 'paused') AND r.worker_id IS NULL AND (r.stage = 2) <> (r.started_at IS NULL)
