-- Purpose: how many of the runs from this one on each worker drove, by the name in their first task. Only benchmarks send it
-- Index: tasks_pkey
-- Locks: none
SELECT t.worker, count(*)::int FROM oarlock.tasks t WHERE t.run_id >= $1 AND t.step = 0 GROUP BY t.worker
