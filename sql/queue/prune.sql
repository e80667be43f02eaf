-- Purpose: deletes rows past their retention, at most @batch runs
-- Index: runs_finished by DAG, run_keys_expire, cache_expires; lanes whole, with runs_queued and runs_rare; runs_pkey, the first entry
-- Locks: rows of runs that no other session holds, then the rows that belong to them; log partitions that are dropped, for at
--        most 1 s; lanes that no other session uses
SELECT p.runs, p.keys, p.log_days, p.workers
  FROM oarlock.prune(@batch) p
