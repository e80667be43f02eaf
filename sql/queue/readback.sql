-- Purpose: the runs that polls claimed whose replies were lost, as the poll would have returned them
-- Index: runs_worker, tasks_pkey
-- Locks: none: the backend that polled was seen gone before
SELECT d.name, EXISTS (SELECT FROM oarlock.tasks t WHERE t.run_id = r.run_id AND t.generation = r.generation)::int AS begun, r.run_id, r.claim_id, r.epoch, r.inbox, r.dag_id, r.version, r.lane_id, r.losses, r.params, r.labels, r.precomputed, r.run_at,
              r.logical_at, r.created_at, r.trigger, r.submitted_by, r.run_key, r.traceparent, r.parent_run, r.root_id, r.depth, r.reason,
              r.generation, r.ending, r.ending_by, r.ending_text, r.paused_by, r.started_at, r.deadline, r.left_ms, r.tolerated, r.counts
  FROM oarlock.runs r JOIN oarlock.dags d ON d.dag_id = r.dag_id
 WHERE r.worker_id = @worker AND r.claim_id = ANY (@claims::uuid[])
