-- Purpose: DAGs in their current version, removed ones last, with when the first of their schedules fires next
-- Index: dags_name_key or a scan of dags, dag_versions_pkey; of each DAG that is returned, schedules_name and agenda_pkey
-- Locks: none
SELECT d.name, v.version, d.paused_by, d.removed_at, d.max_active_runs, v.queue, d.created_at, v.put_at, v.put_by,
       CASE WHEN d.removed_at IS NULL THEN (
            SELECT min(a.at)
              FROM oarlock.schedules s JOIN oarlock.agenda a ON a.kind = 'schedule' AND a.id = s.schedule_id
             WHERE s.dag_id = d.dag_id AND s.ended_at IS NULL AND a.held_from IS NULL) END
  FROM oarlock.dags d JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
 WHERE strpos(d.name, @find::text) > 0 AND (d.removed_at IS NOT NULL, d.name) > (@removed::bool, @after::text)
 ORDER BY d.removed_at IS NOT NULL, d.name LIMIT @rows::bigint
