-- Purpose: deletes what is past its retention, at most so many runs
-- Index: runs_finished by DAG, run_keys_expire, cache_expires
-- Locks: rows of runs that nobody else holds, then what belongs to them; log partitions that are dropped, for at most 1 s
SELECT p.runs, p.keys, p.log_days, p.workers
  FROM oarlock.prune(@batch) p
