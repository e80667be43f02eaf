-- Purpose: the events and the controls of a run, newest first, at most @rows of each
-- Index: runs_pkey, dag_versions_pkey, events_run, controls_run
-- Locks: none
SELECT coalesce(j.event, 0), coalesce(j.control, 0), j.at, coalesce(j.kind, ''), j.by, j.worker, coalesce(j.epoch, 0), j.step, j.item, j.message,
       j.args, j.decided_at, j.outcome, j.state
  FROM oarlock.journal(@run, @event, @control, @rows) j
