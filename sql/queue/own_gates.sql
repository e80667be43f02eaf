-- Purpose: the limits that due runs of one family are behind
-- Index: runs_pkey, runs_parent
-- Locks: none
WITH RECURSIVE family (run_id) AS (
    SELECT r.run_id FROM oarlock.runs r WHERE r.run_id = @root::bigint
    UNION ALL
    SELECT c.run_id FROM family f JOIN oarlock.runs c ON c.parent_run = f.run_id
)
SELECT DISTINCT l.queue, q.max_running > 0 AS by_queue, CASE WHEN d.max_active_runs > 0 THEN d.dag_id ELSE 0 END AS dag
  FROM family f JOIN oarlock.runs r USING (run_id)
  JOIN oarlock.lanes l USING (lane_id) JOIN oarlock.queues q ON q.name = l.queue JOIN oarlock.dags d ON d.dag_id = r.dag_id
 WHERE r.state = 'queued' AND (r.run_at <= statement_timestamp() OR r.epoch > 0) AND (q.max_running > 0 OR d.max_active_runs > 0)
 ORDER BY l.queue, dag
 LIMIT @bound
