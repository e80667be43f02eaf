-- Purpose: claimed runs of any DAG there is, out of nothing. Only benchmarks send it
-- Index: runs_pkey
-- Locks: new rows
INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, claim_id, worker_id, epoch)
SELECT v.dag_id, v.version, v.lane_id, 'running', clock_timestamp(), clock_timestamp(), 'sql', 1, 'bare', gen_random_uuid(), $1, 1
  FROM (SELECT * FROM oarlock.dag_versions ORDER BY dag_id, version LIMIT 1) v, generate_series(1, $2::int)
RETURNING run_id, claim_id
