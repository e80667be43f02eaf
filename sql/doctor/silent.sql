-- Purpose: how many workers at work gave no sign of life for longer than their lease, how many runs they hold, and the first of them
-- Index: none for workers, a table of a few rows; runs_worker
-- Locks: none
SELECT count(*) AS workers, coalesce((array_agg(w.name ORDER BY w.beat_at))[1], '') AS first,
       coalesce(sum((SELECT count(*) FROM oarlock.runs r WHERE r.worker_id = w.worker_id)), 0)::bigint AS runs,
       coalesce(extract(epoch FROM clock_timestamp() - min(w.beat_at)), 0)::float8 AS seconds,
       coalesce((array_agg(w.ttl_ms ORDER BY w.beat_at))[1], 0)::float8 / 1000 AS lease
  FROM oarlock.workers w
 WHERE w.state IN ('live', 'draining') AND w.beat_at + w.ttl_ms * interval '1 millisecond' < clock_timestamp()
