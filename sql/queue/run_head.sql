-- Purpose: the facts in the head of the page of a run, beside the run itself
-- Index: runs_pkey, runs_finished backwards for its DAG, events_drives
-- Locks: none
SELECT r.id, r.uid, r.dag, r.version, r.generation, r.state, r.reason, r.tolerated, r.queue, r.priority, r.params, r.labels, r.run_key,
       r.trigger, r.epoch, r.worker, r.submitted_by, r.parent, r.root, r.retry_of, r.counts, r.run_at, r.logical_at, r.created_at,
       r.started_at, r.finished_at, r.schedule, r.previous_logical_at, r.actor, h.current, coalesce(h.usual_ms, 0), h.drives
  FROM oarlock.run_status(@run) r
 CROSS JOIN oarlock.run_head(@run) h
