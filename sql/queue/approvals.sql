-- Purpose: the approvals that wait for a decision, the oldest first: the ones that the user may decide, or all that the user
--          may see
-- Index: none on approvals_open, which has a row for each waiting approval; runs_pkey, dags_pkey, dag_versions_pkey, tasks_pkey
-- Locks: none
SELECT a.run, a.dag, a.step, a.item, a.prompt, a.inputs, a.approvers, a.may_decide, a.submitted_by, a.since, a.deadline
  FROM oarlock.waiting_approvals() WITH ORDINALITY a
 WHERE a.may_decide OR @all
 ORDER BY a.ordinality LIMIT @rows
