-- Purpose: runs of a DAG that are long over, each with one task. Only benchmarks send it
-- Index: dags_name_key, dag_versions_pkey
-- Locks: new rows
WITH old AS (
    INSERT INTO oarlock.runs (dag_id, version, lane_id, state, run_at, logical_at, trigger, root_id, submitted_by, epoch, created_at, started_at, finished_at)
    SELECT v.dag_id, v.version, v.lane_id, 'succeeded', t.at, t.at, 'sql', 1, 'bare', 1, t.at, t.at, t.at
      FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND d.name = $1
     CROSS JOIN LATERAL (SELECT now() - interval '30 days' + n * interval '100 ms' AS at FROM generate_series(1, $2::int) n) t
    RETURNING run_id, started_at
)
INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, started_at, attempt_at, finished_at)
SELECT o.run_id, 0, 'succeeded', 1, 1, 1, 2, o.started_at, o.started_at, o.started_at FROM old o
