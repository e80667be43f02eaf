-- Purpose: how many runs of each DAG are past its retention, up to a bound, as oarlock.prune would find them
-- Index: runs_finished by DAG, runs_pkey for parents
-- Locks: none
SELECT d.name, past.runs, past.oldest
  FROM oarlock.dags d
  JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
 CROSS JOIN LATERAL (
       SELECT greatest(CASE WHEN v.retention_days > 0 THEN clock_timestamp() - v.retention_days * interval '1 day' END,
                       CASE WHEN v.retention_runs > 0 THEN (SELECT k.finished_at FROM oarlock.runs k
                               WHERE k.dag_id = d.dag_id AND k.finished_at IS NOT NULL
                               ORDER BY k.finished_at DESC OFFSET v.retention_runs - 1 LIMIT 1) END) AS before) keep
 CROSS JOIN LATERAL (
       SELECT count(*) AS runs, min(o.finished_at) AS oldest
         FROM (SELECT r.finished_at FROM oarlock.runs r
                WHERE r.dag_id = d.dag_id AND r.finished_at < keep.before
                  AND NOT EXISTS (SELECT FROM oarlock.runs p WHERE p.run_id = r.parent_run AND p.finished_at IS NULL)
                ORDER BY r.finished_at LIMIT @most) o) past
 WHERE past.runs > 0
 ORDER BY d.name
