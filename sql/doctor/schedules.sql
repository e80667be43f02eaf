-- Purpose: schedules that cannot be decided, whose newest time was refused, or that are overdue while a worker could attend to them
-- Index: none: the agenda has a row for each schedule that will fire; fires_pkey backwards for each
-- Locks: none
SELECT d.name AS dag, s.name AS schedule,
       CASE WHEN a.errors > 0 THEN 'failed' WHEN last.outcome = 'refused' THEN 'refused' ELSE 'overdue' END AS trouble,
       CASE WHEN a.errors > 0 THEN a.error WHEN last.outcome = 'refused' THEN last.reason ELSE '' END AS why,
       coalesce(extract(epoch FROM statement_timestamp() - a.at), 0)::float8 AS late, count(*) OVER () AS schedules
  FROM oarlock.schedules s
  JOIN oarlock.dags d USING (dag_id)
  LEFT JOIN oarlock.agenda a ON a.kind = 'schedule' AND a.id = s.schedule_id
  LEFT JOIN LATERAL (
       SELECT f.outcome, f.reason FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id ORDER BY f.logical_at DESC LIMIT 1) last ON true
 WHERE s.ended_at IS NULL
   AND (a.errors > 0 OR last.outcome = 'refused'
        OR a.at < statement_timestamp() - interval '1 minute' AND EXISTS (SELECT FROM oarlock.workers w WHERE w.state = 'live'))
 ORDER BY trouble, s.schedule_id LIMIT 1
