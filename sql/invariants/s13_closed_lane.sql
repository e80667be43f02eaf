-- Purpose: S13: workers look at the lane of each run that is not over. A row here is not over, and its lane is closed or gone
-- Index: runs_queued, runs_rare; lanes whole
-- Locks: none
SELECT r.run_id, r.state, r.lane_id
  FROM oarlock.runs r
 WHERE r.state IN ('queued', 'running', 'waiting', 'paused')
   AND NOT EXISTS (SELECT FROM oarlock.lanes l WHERE l.lane_id = r.lane_id AND l.closed IS NULL)
