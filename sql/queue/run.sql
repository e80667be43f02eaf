-- Purpose: one run as its submitter, readers, workers and administrators may see it
-- Index: runs_pkey, and why it waits: tables of a few rows
-- Locks: none
SELECT r.id, r.uid, r.dag, r.version, r.generation, r.state, r.reason, r.tolerated, r.queue, r.priority, r.params, r.labels, r.run_key,
       r.trigger, r.epoch, r.worker, r.submitted_by, r.parent, r.root, r.retry_of, r.counts, r.run_at, r.logical_at, r.created_at,
       r.started_at, r.finished_at, r.schedule, r.previous_logical_at, r.actor, r.quiet
  FROM oarlock.run_status(@run) r
