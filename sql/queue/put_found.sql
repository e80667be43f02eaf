-- Purpose: whether a version was put although its reply was lost: by this user, and not long ago
-- Index: dags_name_key, dag_versions_pkey
-- Locks: none
SELECT v.dag_id, v.version, true
  FROM oarlock.dags d JOIN oarlock.dag_versions v USING (dag_id)
 WHERE d.name = @name AND v.hash = @hash AND v.put_by = oarlock.who() AND v.put_at >= clock_timestamp() - @since::interval
 ORDER BY v.version DESC LIMIT 1
