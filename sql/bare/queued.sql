-- Purpose: queued runs of any DAG there is, out of nothing. Only benchmarks send it
-- Index: runs_pkey
-- Locks: new rows
INSERT INTO oarlock.runs (dag_id, version, lane_id, run_at, ready_at, logical_at, trigger, root_id, submitted_by)
SELECT v.dag_id, v.version, v.lane_id, clock_timestamp(), clock_timestamp(), clock_timestamp(), 'sql', 1, 'bare'
  FROM (SELECT * FROM oarlock.dag_versions ORDER BY dag_id, version LIMIT 1) v, generate_series(1, $1::int)
