-- Purpose: what became of the items of a run's foreach steps in each of some stretches of time
-- Index: runs_pkey, dag_versions_pkey, tasks_pkey: all items of one run
-- Locks: none
SELECT coalesce(b.step, ''), coalesce(b.bucket, 0), coalesce(b.state, ''), coalesce(b.change, 0)
  FROM oarlock.item_bands(@run, @since, @until, @buckets) b
