-- Purpose: the workers at work that have programs older than a schema version; fails with 42P01 where the tables do not exist
-- Index: none: workers is small
-- Locks: none
SELECT w.name FROM oarlock.workers w
 WHERE w.state IN ('live', 'draining') AND w.beat_at > clock_timestamp() - w.ttl_ms * interval '1 millisecond' AND w.schema_version < $1
 ORDER BY w.name
