-- Purpose: all DAGs in their current version, removed ones too
-- Index: dags_name_key, dag_versions_pkey
-- Locks: none
SELECT d.name, v.version, d.paused_by, d.removed_at, d.max_active_runs, v.queue, d.created_at, v.put_at, v.put_by
  FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
 ORDER BY d.name
