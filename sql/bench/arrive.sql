-- Purpose: what asking for a run is with nothing around it: its row. Only benchmarks send it
-- Index: dag_versions_pkey
-- Locks: a new row
INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, params)
SELECT v.dag_id, v.version, v.lane_id, 'queued', clock_timestamp(), clock_timestamp(), 'sql', 1, 'bare', $1::jsonb
  FROM oarlock.dag_versions v ORDER BY v.dag_id, v.version LIMIT 1
