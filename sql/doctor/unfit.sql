-- Purpose: how many workers at work claim nothing, and since when and why the first of them
-- Index: none: a table of a few rows
-- Locks: none
SELECT count(*) AS workers, coalesce((array_agg(w.name ORDER BY w.unfit_since))[1], '') AS first, coalesce((array_agg(w.unfit ORDER BY w.unfit_since))[1], '') AS why,
       coalesce(extract(epoch FROM clock_timestamp() - min(w.unfit_since)), 0)::float8 AS seconds
  FROM oarlock.workers w
 WHERE w.state IN ('live', 'draining') AND w.unfit <> ''
