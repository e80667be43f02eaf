-- Purpose: all DAGs in their current version, removed ones too, with when the first of their schedules fires next
-- Index: dags_name_key, dag_versions_pkey; the agenda as a whole, which has a row for each schedule that will fire
-- Locks: none
SELECT d.name, v.version, d.paused_by, d.removed_at, d.max_active_runs, v.queue, d.created_at, v.put_at, v.put_by, CASE WHEN d.removed_at IS NULL THEN coming.at END
  FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
  LEFT JOIN (
       SELECT s.dag_id, min(a.at) AS at
         FROM oarlock.agenda a JOIN oarlock.schedules s ON s.schedule_id = a.id
        WHERE a.kind = 'schedule' AND a.held_from IS NULL GROUP BY s.dag_id) coming ON coming.dag_id = d.dag_id
 ORDER BY d.name
