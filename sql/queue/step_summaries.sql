-- Purpose: the steps of a run in the order of its DAG, their items counted
-- Index: runs_pkey, dag_versions_pkey, tasks_pkey, approvals_open_pkey, attempts_pkey
-- Locks: none
SELECT (s.info).step, (s.info).item, (s.info).kind, (s.info).state, (s.info).reason, (s.info).failure_kind, (s.info).exit_code,
       (s.info).attempt, NULL::jsonb AS outputs, (s.info).worker, (s.info).replaces, (s.info).next_attempt_at, (s.info).started_at, (s.info).finished_at,
       (s.info).approval, (s.info).attempt_at, s.items, s.states, s.first_at, s.last_at, s.failed, coalesce(s.retried, 0), s.tries
  FROM oarlock.step_summaries(@run) s
