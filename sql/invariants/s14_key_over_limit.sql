-- Purpose: S14: of runs with the same key, no more are under way than the limit of their DAG says. Runs that began before the current
--          version may exceed a limit that it lowered
-- Index: runs_counted
-- Locks: none
SELECT d.name, r.limit_keys[1] AS key, count(*) AS runs, array_agg(r.run_id) AS ids
  FROM oarlock.dags d
  JOIN oarlock.dag_versions v ON v.dag_id = d.dag_id AND v.version = d.current_version
  JOIN oarlock.runs r ON r.dag_id = d.dag_id AND r.limit_keys IS NOT NULL AND r.finished_at IS NULL AND (r.worker_id IS NOT NULL OR r.epoch > 0 AND r.stage < 2)
 WHERE d.current_limits IS NOT NULL AND r.limit_keys[1] IS NOT NULL AND r.started_at > v.put_at
 GROUP BY d.name, d.current_limits, r.limit_keys[1]
HAVING count(*) > (d.current_limits #>> '{0,limit}')::int
