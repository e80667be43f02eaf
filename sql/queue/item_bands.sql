-- Purpose: what became of the items of foreach steps of a run, in each of some stretches of a time of each step's own
-- Index: runs_pkey, dag_versions_pkey, tasks_pkey: all items of these steps
-- Locks: none
SELECT coalesce(b.step, ''), coalesce(b.bucket, 0), coalesce(b.state, ''), coalesce(b.change, 0)
  FROM oarlock.item_bands(@run, @steps, @since, @until, @buckets) b
