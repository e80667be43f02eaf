-- Purpose: bench/arrive, once for each of the params. Only benchmarks send it
-- Index: dag_versions_pkey
-- Locks: new rows
INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, params)
SELECT v.dag_id, v.version, v.lane_id, 'queued', clock_timestamp(), clock_timestamp(), 'sql', 1, 'bare', p
  FROM (SELECT * FROM oarlock.dag_versions ORDER BY dag_id, version LIMIT 1) v, unnest($1::jsonb[]) p
