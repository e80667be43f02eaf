-- Purpose: S4: in a finished run every task is final, handlers that had no turn in its last generation included
-- Index: none, it reads all finished runs; tasks_pkey
-- Locks: none
SELECT r.run_id, r.state AS run_state, t.step, t.item, t.alt, t.state
  FROM oarlock.runs r
  JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.state NOT IN ('succeeded', 'failed', 'skipped', 'upstream_failed', 'canceled', 'replaced')
 WHERE r.finished_at IS NOT NULL
