-- Purpose: how long each run of a priority, from one run on, waited from its request until its first task started, in ms. Only
--          benchmarks send it
-- Index: runs_pkey, tasks_pkey
-- Locks: none
SELECT extract(epoch FROM t.attempt_at - r.created_at)::float8 * 1000
  FROM oarlock.runs r JOIN oarlock.lanes l ON l.lane_id = r.lane_id JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.step = 0
 WHERE r.run_id >= $1 AND l.priority = $2
