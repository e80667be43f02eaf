-- Purpose: how many items of foreach steps of a run changed to which state, in each bucket of a span of time that each step has
--          of its own
-- Index: runs_pkey, dag_versions_pkey, tasks_pkey: all items of these steps
-- Locks: none
SELECT coalesce(b.step, ''), coalesce(b.bucket, 0), coalesce(b.state, ''), coalesce(b.change, 0)
  FROM oarlock.item_bands(@run, @steps, @since, @until, @buckets) b
