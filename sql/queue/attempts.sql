-- Purpose: the attempts of a run that later ones superseded
-- Index: attempts_pkey, runs_pkey, dag_versions_pkey
-- Locks: none
SELECT s.name || coalesce('~' || nullif(a.alt, 0), ''), a.item, a.attempt, a.generation, a.state, a.failure_kind, a.exit_code,
       a.signal, a.reason, a.worker, a.started_at, a.finished_at
  FROM oarlock.runs r
  JOIN oarlock.dag_versions v USING (dag_id, version)
 CROSS JOIN oarlock.steps_of(v.spec) s
  JOIN oarlock.attempts a ON a.run_id = r.run_id AND a.step = s.step
 WHERE r.run_id = @run
 ORDER BY a.step, a.item, a.alt, a.attempt
