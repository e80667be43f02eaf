-- Purpose: one task of a run, its attempts with it
-- Index: runs_pkey, dag_versions_pkey, tasks_pkey, approvals_open_pkey, attempts_pkey
-- Locks: none
SELECT (d.info).step, (d.info).item, (d.info).kind, (d.info).state, (d.info).reason, (d.info).failure_kind, (d.info).exit_code,
       (d.info).attempt, coalesce(d.outputs, '{}'), (d.info).worker, (d.info).replaces, (d.info).next_attempt_at, (d.info).started_at,
       (d.info).finished_at, (d.info).approval, (d.info).attempt_at, coalesce(d.last_line, ''), d.tries, d.latest
  FROM oarlock.task_detail(@run, @step, @item) d
