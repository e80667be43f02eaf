-- Purpose: the first three schedules that cannot be decided, that are due and not attended to, or that had their newest time
--          refused
-- Index: none: the agenda has a row for each schedule that will fire; fires_pkey backwards for each
-- Locks: none
SELECT d.name AS dag, s.name AS schedule, x.trouble, CASE x.trouble WHEN 'failed' THEN a.error WHEN 'refused' THEN last.reason ELSE '' END AS why,
       coalesce(last.logical_at, s.decided_at) AS at, coalesce(extract(epoch FROM statement_timestamp() - a.at), 0)::float8 AS late,
       count(*) OVER () AS schedules, EXISTS (SELECT FROM oarlock.workers w WHERE w.state = 'live') AS attended
  FROM oarlock.schedules s
  JOIN oarlock.dags d USING (dag_id)
  LEFT JOIN oarlock.agenda a ON a.kind = 'schedule' AND a.id = s.schedule_id
  LEFT JOIN LATERAL (
       SELECT f.logical_at, f.outcome, f.reason FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id AND f.logical_at <= statement_timestamp() ORDER BY f.logical_at DESC LIMIT 1) last ON true
 CROSS JOIN LATERAL (
       SELECT CASE WHEN a.errors > 0 THEN 'failed'
                   WHEN a.at < statement_timestamp() - interval '1 minute' AND a.held_from IS NULL THEN 'overdue'
                   WHEN last.outcome = 'refused' THEN 'refused' END AS trouble) x
 WHERE s.ended_at IS NULL AND d.removed_at IS NULL AND x.trouble IS NOT NULL
 ORDER BY x.trouble, a.at, s.schedule_id LIMIT 3
