-- Purpose: tests of sharing: how long each child run waited for its first task to start, in seconds
-- Index: none: a few rows
-- Locks: none
SELECT array_agg(extract(epoch FROM t.attempt_at - r.created_at)::float8) FROM oarlock.runs r JOIN oarlock.tasks t USING (run_id) WHERE r.parent_run IS NOT NULL
