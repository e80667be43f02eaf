-- Purpose: how many of the workers at work have programs that are older than a schema version, and the names of some
-- Index: none: a table of a few rows
-- Locks: none
SELECT count(*) AS workers, coalesce(array_to_string((array_agg(w.name ORDER BY w.name))[1:10], ', '), '') AS names
  FROM oarlock.workers w
 WHERE w.state IN ('live', 'draining') AND w.schema_version < $1
