-- Purpose: S5: no task starts before its edges are satisfied. A row here is an edge on which the parent came later than the
--          child. Trigger rules that need one parent only, tasks that a person marked, and parents that were retried alone
--          since then prove nothing and are left out
-- Index: none, it reads all tasks; tasks_pkey, runs_pkey, dag_versions_pkey
-- Locks: none
WITH edge AS (
    SELECT v.dag_id, v.version, child.step AS child, parent.step AS parent, coalesce(d.value ->> 'state', 'succeeded') AS wants
      FROM oarlock.dag_versions v
     CROSS JOIN LATERAL oarlock.steps_of(v.spec) child
     CROSS JOIN LATERAL jsonb_array_elements(child.body -> 'depends') d
      JOIN LATERAL oarlock.steps_of(v.spec) parent ON parent.name = coalesce(d.value ->> 'step', d.value #>> '{}')
     WHERE child.kind <> 'handler' AND jsonb_typeof(child.body -> 'depends') = 'array'
       AND coalesce(child.body ->> 'trigger_rule', 'all_success') NOT IN ('one_success', 'one_failed', 'one_done')
), started AS (
    SELECT r.dag_id, r.version, t.run_id, t.step, t.generation, min(t.started_at) AS at, min(coalesce(t.reset_by, 0)) AS reset_by
      FROM oarlock.tasks t JOIN oarlock.runs r USING (run_id)
     WHERE t.attempt > 0 AND t.started_at IS NOT NULL AND t.alt = 0 AND t.marked = ''
     GROUP BY r.dag_id, r.version, t.run_id, t.step, t.generation
)
SELECT s.run_id, s.step, s.at AS started_at, e.parent, e.wants, p.started_at AS parent_started_at, p.finished_at AS parent_finished_at
  FROM started s
  JOIN edge e ON e.dag_id = s.dag_id AND e.version = s.version AND e.child = s.step
  LEFT JOIN LATERAL (
       SELECT max(t.generation) AS generation, max(coalesce(t.reset_by, 0)) AS reset_by, min(t.started_at) AS started_at,
              CASE WHEN bool_and(t.finished_at IS NOT NULL) THEN max(t.finished_at) END AS finished_at
         FROM oarlock.tasks t WHERE t.run_id = s.run_id AND t.step = e.parent AND t.item = '' HAVING count(*) > 0) p ON true
 WHERE p.generation IS NULL
    OR p.generation <= s.generation AND p.reset_by <= s.reset_by
       AND CASE e.wants WHEN 'succeeded' THEN coalesce(p.finished_at > s.at, true)
                        ELSE coalesce(least(p.started_at, p.finished_at) > s.at, true) END
