-- Purpose: whether the queue of a run is paused, and its DAG
-- Index: runs_pkey, lanes_pkey, queues_pkey, dags_pkey
-- Locks: none
SELECT q.paused_by IS NOT NULL, d.paused_by IS NOT NULL
  FROM oarlock.runs r
  JOIN oarlock.lanes l USING (lane_id)
  JOIN oarlock.queues q ON q.name = l.queue
  JOIN oarlock.dags d ON d.dag_id = r.dag_id
 WHERE r.run_id = @run
