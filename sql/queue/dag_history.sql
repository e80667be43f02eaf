-- Purpose: the versions of a DAG, newest first
-- Index: dags_name_key, dag_versions_pkey backwards
-- Locks: none
SELECT d.name, v.version, d.paused_by, d.removed_at, d.max_active_runs, v.queue, d.created_at, v.put_at, v.put_by
  FROM oarlock.dags d JOIN oarlock.dag_versions v USING (dag_id)
 WHERE d.name = @name
 ORDER BY v.version DESC LIMIT @rows
