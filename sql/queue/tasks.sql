-- Purpose: the tasks of a run in the order of its DAG
-- Index: runs_pkey, dag_versions_pkey, tasks_pkey, approvals_open_pkey
-- Locks: none
SELECT t.step, t.item, t.kind, t.state, t.reason, t.failure_kind, t.exit_code, t.attempt, t.outputs, t.worker, t.replaces,
       t.next_attempt_at, t.started_at, t.finished_at, t.approval, t.attempt_at, coalesce(t.items, 0)
  FROM oarlock.task_status(@run) t
