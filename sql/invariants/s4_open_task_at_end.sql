-- Purpose: S4: in a finished run every task is final. Handlers that had no turn in this generation stay pending
-- Index: none, it reads all finished runs; tasks_pkey, dag_versions_pkey
-- Locks: none
SELECT r.run_id, r.state AS run_state, t.step, t.item, t.alt, t.state
  FROM oarlock.runs r
  JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.state NOT IN ('succeeded', 'failed', 'skipped', 'upstream_failed', 'canceled', 'replaced')
  JOIN oarlock.dag_versions v ON v.dag_id = r.dag_id AND v.version = r.version
 WHERE r.finished_at IS NOT NULL
   AND NOT (t.state = 'pending' AND t.step >= jsonb_array_length(v.spec -> 'steps'))
