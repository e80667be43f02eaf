-- Purpose: the DAG with the run that is furthest past its retention, and for how many seconds; none: no run is
-- Index: runs_finished, the first entries by DAG; runs_pkey for parents
-- Locks: none
SELECT d.name, (extract(epoch FROM statement_timestamp() - oldest.finished_at) - v.retention_days * 86400.0)::float8 AS late
  FROM oarlock.dags d
  JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
 CROSS JOIN LATERAL (
       SELECT r.finished_at
         FROM oarlock.runs r
        WHERE r.dag_id = d.dag_id AND r.finished_at < statement_timestamp() - v.retention_days * interval '1 day'
          AND NOT EXISTS (SELECT FROM oarlock.runs p WHERE p.run_id = r.parent_run AND p.finished_at IS NULL)
        ORDER BY r.finished_at LIMIT 1) oldest
 WHERE v.retention_days > 0
 ORDER BY late DESC LIMIT 1
