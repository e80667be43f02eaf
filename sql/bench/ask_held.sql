-- Purpose: how many runs workers hold. Only benchmarks send it
-- Index: runs_worker
-- Locks: none
SELECT count(*)::int FROM oarlock.runs r WHERE r.worker_id IS NOT NULL
