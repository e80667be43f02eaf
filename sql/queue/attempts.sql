-- Purpose: the attempts of a run that later ones superseded
-- Index: attempts_pkey, runs_pkey, dag_versions_pkey
-- Locks: none
SELECT a.step, a.item, a.attempt, a.generation, a.state, a.failure_kind, a.exit_code, a.signal, a.reason, a.worker, a.started_at, a.finished_at
  FROM oarlock.run_attempts(@run) a
