-- Purpose: who works with this schema, and how many runs are not over, up to a bound; fails with 42P01 where there are no such tables
-- Index: none: workers is small; of runs it reads until it has found so many
-- Locks: none
SELECT ARRAY(SELECT w.name FROM oarlock.workers w
              WHERE w.state IN ('live', 'draining') AND w.beat_at > clock_timestamp() - w.ttl_ms * interval '1 millisecond'
              ORDER BY w.name) AS workers,
       (SELECT count(*) FROM (SELECT FROM oarlock.runs r WHERE r.finished_at IS NULL LIMIT $1) open) AS runs
