-- Purpose: S2b: whoever holds a run has a fence, so that it can be taken away. A row here is seen for a moment while a lost worker's runs are queued, and by the next sweep it is gone
-- Index: runs_worker, fences_pkey
-- Locks: none
SELECT r.run_id, r.worker_id, r.epoch
  FROM oarlock.runs r
 WHERE r.worker_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM oarlock.fences f WHERE f.worker_id = r.worker_id AND f.channel = 'commit')
