-- Purpose: queues a run, as bench/arrive does, and announces it by a notification. Only benchmarks send it
-- Index: dag_versions_pkey
-- Locks: a new row
WITH run AS (
    INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, ready_at, logical_at, trigger, root_id, submitted_by)
    SELECT v.dag_id, v.version, v.lane_id, 'queued', clock_timestamp(), clock_timestamp(), clock_timestamp(), 'sql', 1, 'bare'
      FROM oarlock.dag_versions v ORDER BY v.dag_id, v.version LIMIT 1
    RETURNING run_id
)
SELECT pg_notify('bench_arrivals', run_id::text) FROM run
