-- Purpose: how many workers at work claim nothing, and since when and why the first of them; how many there are, and whether a run is due
-- Index: none for workers, a table of a few rows; runs_queued
-- Locks: none
SELECT (SELECT count(*) FROM oarlock.workers a WHERE a.state IN ('live', 'draining')) AS at_work,
       EXISTS (SELECT FROM oarlock.runs r WHERE r.state = 'queued' AND r.run_at <= clock_timestamp()) AS is_due,
       count(*) AS workers, coalesce((array_agg(w.name ORDER BY w.unfit_since))[1], '') AS first, coalesce((array_agg(w.unfit ORDER BY w.unfit_since))[1], '') AS why,
       coalesce(extract(epoch FROM clock_timestamp() - min(w.unfit_since)), 0)::float8 AS seconds
  FROM oarlock.workers w
 WHERE w.state IN ('live', 'draining') AND w.unfit <> '' AND oarlock.quiet_since(w) IS NULL -- what a quiet one said last is not what is wrong with it
