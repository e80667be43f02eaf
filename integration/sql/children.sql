-- Purpose: tasks with more child runs than attempts, and tasks that succeeded without a child run that succeeded
-- Index: runs_parent
-- Locks: none
SELECT t.run_id, s.name, t.attempt, count(c.run_id) AS children, count(*) FILTER (WHERE c.state = 'succeeded') AS succeeded
  FROM oarlock.tasks t
  JOIN oarlock.runs r USING (run_id)
  JOIN oarlock.dag_versions v ON v.dag_id = r.dag_id AND v.version = r.version
  JOIN LATERAL oarlock.steps_of(v.spec) s ON s.step = t.step
  LEFT JOIN oarlock.runs c ON c.parent_run = t.run_id AND c.parent_step = t.step AND c.parent_item = t.item AND c.parent_alt = t.alt
 WHERE s.body ->> 'action' = 'dag.run'
 GROUP BY t.run_id, s.name, t.attempt, t.state
HAVING count(c.run_id) > t.attempt OR t.state = 'succeeded' AND count(*) FILTER (WHERE c.state = 'succeeded') = 0
