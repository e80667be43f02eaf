-- Purpose: how often the runs from one run on were claimed besides their first claim. Only benchmarks send it
-- Index: runs_pkey
-- Locks: none
SELECT coalesce(sum(r.epoch - 1), 0)::float8 FROM oarlock.runs r WHERE r.run_id >= $1
