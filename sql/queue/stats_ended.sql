-- Purpose: the outcomes of the runs of each DAG that ended since a moment, and how long these took; of each DAG the newest, up
--          to a bound
-- Index: runs_finished, backwards by DAG
-- Locks: none
SELECT d.name, s.succeeded, s.failed, s.canceled, coalesce(s.ms[1], 0)::float8, coalesce(s.ms[2], 0)::float8, coalesce(s.ms[3], 0)::float8
  FROM oarlock.dags d
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE e.state = 'succeeded') AS succeeded, count(*) FILTER (WHERE e.state = 'failed') AS failed,
              count(*) FILTER (WHERE e.state = 'canceled') AS canceled,
              percentile_cont(ARRAY[0.5, 0.95, 1]) WITHIN GROUP (ORDER BY e.ms) AS ms
         FROM (SELECT r.state, extract(epoch FROM r.finished_at - r.started_at)::float8 * 1000 AS ms FROM oarlock.runs r
                WHERE r.dag_id = d.dag_id AND r.finished_at >= @since
                ORDER BY r.finished_at DESC LIMIT @most) e) s
 WHERE (@dag::text IS NULL OR d.name = @dag::text) AND s.succeeded + s.failed + s.canceled > 0
 ORDER BY d.name
