-- Purpose: queues with more claimed runs than their limit
-- Index: runs_worker
-- Locks: none
SELECT q.name, q.max_running, count(*)
  FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) JOIN oarlock.queues q ON q.name = l.queue
 WHERE r.claim_id IS NOT NULL AND q.max_running > 0
 GROUP BY q.name, q.max_running HAVING count(*) > q.max_running
