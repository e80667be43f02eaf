-- Purpose: a page of the tasks of a run in the order of their key, and where it stopped
-- Index: runs_pkey, dag_versions_pkey, tasks_pkey, approvals_open_pkey
-- Locks: none
SELECT coalesce((p.info).step, ''), (p.info).item, coalesce((p.info).kind, ''), coalesce((p.info).state, ''), coalesce((p.info).reason, ''), (p.info).failure_kind,
       (p.info).exit_code, coalesce((p.info).attempt, 0), NULL::jsonb AS outputs, (p.info).worker, (p.info).replaces, (p.info).next_attempt_at,
       (p.info).started_at, (p.info).finished_at, (p.info).approval, (p.info).attempt_at, coalesce(p.at_step, 0), p.at_item, coalesce(p.at_alt, 0)
  FROM oarlock.task_page(@run, @step, @states, @item, @after_step, @after_item, @after_alt, @rows) p
