-- Purpose: S2b: each worker that holds a run has a fence, so that the run can be taken away from it. A row here may appear for
--          a moment while the runs of a lost worker are queued again, and is gone after the next sweep
-- Index: runs_worker, fences_pkey
-- Locks: none
SELECT r.run_id, r.worker_id, r.epoch
  FROM oarlock.runs r
 WHERE r.worker_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM oarlock.fences f WHERE f.worker_id = r.worker_id AND f.channel = 'commit')
