-- Purpose: the runs that a worker drives, the oldest first
-- Index: runs_worker, and a run's status for each: see run.sql
-- Locks: none
WITH held AS MATERIALIZED ( -- so that their order is no reason to walk runs_pkey
    SELECT h.run_id FROM oarlock.runs h WHERE h.worker_id = @worker
)
SELECT r.id, r.uid, r.dag, r.version, r.generation, r.state, r.reason, r.tolerated, r.queue, r.priority, r.params, r.labels, r.run_key,
       r.trigger, r.epoch, r.worker, r.submitted_by, r.parent, r.root, r.retry_of, r.counts, r.run_at, r.logical_at, r.created_at,
       r.started_at, r.finished_at, r.schedule, r.previous_logical_at, r.actor
  FROM (SELECT held.run_id FROM held ORDER BY held.run_id LIMIT @rows) oldest
 CROSS JOIN LATERAL oarlock.run_status(oldest.run_id) r
 ORDER BY r.id
