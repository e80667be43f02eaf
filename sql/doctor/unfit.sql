-- Purpose: the workers at work that give signs of life and claim nothing: since when and why, the one that has said so for longest first
-- Index: none: a table of a few rows
-- Locks: none
SELECT w.name, w.unfit AS why, coalesce(extract(epoch FROM clock_timestamp() - w.unfit_since), 0)::float8 AS seconds
  FROM oarlock.workers w
 WHERE w.state IN ('live', 'draining') AND w.unfit <> '' AND oarlock.quiet_since(w) IS NULL -- what a quiet one said last is not what is wrong with it
 ORDER BY w.unfit_since, w.name
