-- Purpose: the runs that polls claimed whose replies were lost, as the poll would have returned them
-- Index: runs_worker, tasks_pkey
-- Locks: none: the backend that polled was seen gone before
SELECT d.name, EXISTS (SELECT FROM oarlock.tasks t WHERE t.run_id = c.run_id AND t.generation = c.generation)::int AS begun, c.*
  FROM oarlock.claims c JOIN oarlock.dags d ON d.dag_id = c.dag_id
 WHERE c.worker_id = @worker AND c.claim_id = ANY (@claims::uuid[])
