-- Purpose: tests of sharing: the last run
-- Index: runs_pkey
-- Locks: none
SELECT coalesce(max(run_id), 0) FROM oarlock.runs
