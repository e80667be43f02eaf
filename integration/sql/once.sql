-- Purpose: tasks that wrote their row another number of times than they succeeded
-- Index: none
-- Locks: none
WITH wrote AS (
    SELECT run_id, step, count(*) AS n FROM chaos.once GROUP BY run_id, step
), won AS (
    SELECT a.run_id, s.name AS step, count(*) AS n
      FROM chaos.audit a JOIN oarlock.runs r USING (run_id) JOIN oarlock.dag_versions v ON v.dag_id = r.dag_id AND v.version = r.version
      JOIN LATERAL oarlock.steps_of(v.spec) s ON s.step = a.step
     WHERE a.became = 'succeeded' AND a.was IS DISTINCT FROM 'succeeded' AND s.body ->> 'action' = 'postgres.query'
     GROUP BY a.run_id, s.name
)
SELECT run_id, step, coalesce(wrote.n, 0), coalesce(won.n, 0) FROM wrote FULL JOIN won USING (run_id, step)
 WHERE coalesce(wrote.n, 0) <> coalesce(won.n, 0)
