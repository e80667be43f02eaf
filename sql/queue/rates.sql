-- Purpose: runs that end, and runs that fail, per second: over the last minute, or of each DAG the newest up to a bound
-- Index: runs_finished, backwards by DAG, down to a moment that is fixed for the statement: clock_timestamp() would not end it
-- Locks: none
SELECT coalesce(sum(s.ended / s.seconds), 0)::float8, coalesce(sum(s.failed / s.seconds), 0)::float8
  FROM oarlock.dags d
 CROSS JOIN LATERAL (
       SELECT count(*) AS ended, count(*) FILTER (WHERE e.state = 'failed') AS failed,
              CASE WHEN count(*) < @most THEN 60 ELSE greatest(extract(epoch FROM statement_timestamp() - min(e.finished_at)), 0.001) END AS seconds
         FROM (SELECT r.state, r.finished_at FROM oarlock.runs r
                WHERE r.dag_id = d.dag_id AND r.finished_at >= statement_timestamp() - interval '1 minute'
                ORDER BY r.finished_at DESC LIMIT @most) e) s
