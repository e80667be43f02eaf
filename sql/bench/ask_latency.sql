-- Purpose: the time from request to end of the runs of a range of ids, as median and 99th percentile in ms; how many runs there
--          are, and how many are not over. Only benchmarks send it
-- Index: runs_pkey
-- Locks: none
SELECT coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM r.finished_at - r.created_at) * 1000), 0)::float8,
       coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM r.finished_at - r.created_at) * 1000), 0)::float8,
       count(*)::float8, count(*) FILTER (WHERE r.finished_at IS NULL)::float8
  FROM oarlock.runs r WHERE r.run_id >= $1 AND r.run_id < $2
