-- Purpose: opens a new generation of a finished run
-- Index: runs_pkey, dag_versions_pkey
-- Locks: the parent's row of runs, then the run's; both until the statement is done
SELECT a.id, a.run, a.verb, a.step, a.item, NULL::jsonb AS args, a.by, a.at, a.decided_at, a.outcome, a.state, a.message
  FROM oarlock.retry(@run, @mode, @step, @item) a
