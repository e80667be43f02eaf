-- Purpose: how a run ended, and the outputs of its steps
-- Index: runs_pkey, dag_versions_pkey, tasks_pkey
-- Locks: none
SELECT r.state, r.reason, r.tolerated, r.outputs, r.started_at, r.finished_at, r.is_over
  FROM oarlock.run_result(@run) r
