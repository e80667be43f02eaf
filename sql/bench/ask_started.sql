-- Purpose: whether fewer than $2 tasks have started, of the runs from one run on. Only benchmarks send it
-- Index: tasks_pkey
-- Locks: none
SELECT count(*) < $2 FROM oarlock.tasks t WHERE t.run_id >= $1 AND t.attempt_at IS NOT NULL
