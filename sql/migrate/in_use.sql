-- Purpose: the workers at work with this schema, and the number of runs that are not over, counted up to $1; fails with 42P01
--          where the tables do not exist
-- Index: none: workers is small; it reads runs until it has found $1
-- Locks: none
SELECT ARRAY(SELECT w.name FROM oarlock.workers w
              WHERE w.state IN ('live', 'draining') AND w.beat_at > clock_timestamp() - w.ttl_ms * interval '1 millisecond'
              ORDER BY w.name) AS workers,
       (SELECT count(*) FROM (SELECT FROM oarlock.runs r WHERE r.finished_at IS NULL LIMIT $1) open) AS runs
