-- Purpose: asks for a run, or a step of it, to be canceled; a run that no worker holds may end here
-- Index: runs_pkey, dag_versions_pkey; of a run that no worker holds also runs_parent, tasks_pkey, controls_open
-- Locks: the parent's row of runs, then the run's; then its tasks and controls where it ends; all until the statement is done
SELECT a.id, a.run, a.verb, a.step, a.item, NULL::jsonb AS args, a.by, a.at, a.decided_at, a.outcome, a.state, a.message
  FROM oarlock.cancel(@run, @step, @item, @now) a
