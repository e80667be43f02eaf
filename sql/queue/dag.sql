-- Purpose: one version of a DAG, by default the current one
-- Index: dags_name_key, dag_versions_pkey
-- Locks: none
SELECT d.name, v.version, d.paused_by, d.removed_at, d.max_active_runs, v.queue, d.created_at, v.put_at, v.put_by,
       d.dag_id, d.current_version, v.spec, v.source, v.source_path, v.hash, v.needs
  FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = coalesce(@version::int, d.current_version)
 WHERE d.name = @name
