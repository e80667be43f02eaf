-- Purpose: queued runs of a DAG. Only benchmarks send it
-- Index: dags_name_key, dag_versions_pkey
-- Locks: new rows
INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, ready_at, logical_at, trigger, root_id, submitted_by)
SELECT v.dag_id, v.version, v.lane_id, 'queued', at, at, now(), 'sql', 1, 'bare'
  FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND d.name = $1,
       (SELECT now() - interval '1 day' + n * interval '10 ms' AS at FROM generate_series(1, $2::int) n) t
