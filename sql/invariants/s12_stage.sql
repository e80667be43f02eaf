-- Purpose: S12: the stage of a run in the queue tells whether the run has begun. Limits count by the stage, and pauses go by
--          it. A row here is held by no worker, has not ended, and has a stage that contradicts started_at
-- Index: runs_queued, runs_rare
-- Locks: none
SELECT r.run_id, r.state, r.stage, r.started_at
  FROM oarlock.runs r
 WHERE r.state IN ('queued', 'waiting', 'paused') AND r.worker_id IS NULL AND (r.stage = 2) <> (r.started_at IS NULL)
