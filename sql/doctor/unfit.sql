-- Purpose: the workers at work that give signs of life and claim nothing: since when and why, the longest first
-- Index: none: a table of a few rows
-- Locks: none
SELECT w.name, w.unfit AS why, coalesce(extract(epoch FROM clock_timestamp() - w.unfit_since), 0)::float8 AS seconds
  FROM oarlock.workers w
 WHERE w.state IN ('live', 'draining') AND w.unfit <> '' AND oarlock.quiet_since(w) IS NULL -- the last reason of a quiet worker is not its trouble now
 ORDER BY w.unfit_since, w.name
