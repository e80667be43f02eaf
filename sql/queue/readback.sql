-- Purpose: the runs that polls claimed whose replies were lost, as the poll would have returned them
-- Index: runs_worker, tasks_pkey
-- Locks: none: the backend that polled was seen gone before
SELECT d.name, c.begun, c.run_id, c.uid, c.claim_id, c.epoch, c.inbox, c.dag_id, c.version, c.lane_id, c.losses, c.params, c.labels, c.precomputed, c.run_at,
              c.logical_at, c.created_at, c.trigger, c.submitted_by, c.run_key, c.traceparent, c.parent_run, c.root_id, c.depth, c.reason,
              c.generation, c.ending, c.ending_by, c.ending_text, c.paused_by, c.started_at, c.deadline, c.left_ms, c.tolerated, c.counts
  FROM (SELECT r.*, EXISTS (SELECT FROM oarlock.tasks t WHERE t.run_id = r.run_id AND t.generation = r.generation)::int AS begun FROM oarlock.runs r) c
  JOIN oarlock.dags d ON d.dag_id = c.dag_id
 WHERE c.worker_id = @worker AND c.claim_id = ANY (@claims::uuid[])
