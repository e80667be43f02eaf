-- Purpose: the events of a run after a given event
-- Index: events_run, runs_pkey, dag_versions_pkey
-- Locks: none
SELECT e.event, e.at, e.kind, e.by, e.worker, e.epoch, e.step, e.item, e.message
  FROM oarlock.run_events(@run, @after, @rows) e
