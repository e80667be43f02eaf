-- Purpose: how long each run of a DAG, from one run on, waited from its request until its first task started, in ms. Only
--          benchmarks send it
-- Index: runs_dag, tasks_pkey
-- Locks: none
SELECT extract(epoch FROM t.attempt_at - r.created_at)::float8 * 1000
  FROM oarlock.runs r JOIN oarlock.dags d ON d.dag_id = r.dag_id JOIN oarlock.tasks t ON t.run_id = r.run_id AND t.step = 0
 WHERE r.run_id >= $1 AND d.name = $2
