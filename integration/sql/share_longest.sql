-- Purpose: tests of sharing: the longest that a run after $1 waited for its first task to start, in seconds
-- Index: none: a few rows
-- Locks: none
SELECT coalesce(max(extract(epoch FROM t.attempt_at - r.created_at)), 0)::float8 FROM oarlock.runs r JOIN oarlock.tasks t USING (run_id) WHERE r.run_id > $1 AND t.step = 0
