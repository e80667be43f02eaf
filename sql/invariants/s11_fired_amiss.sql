-- Purpose: S11: a fire time is decided once. A row here is a run that the record of its fire time does not name, or a record
--          that names a run of another fire time
-- Index: fires_pkey; runs_fired; runs_pkey
-- Locks: none
SELECT r.run_id, r.schedule_id, r.logical_at, f.outcome
  FROM oarlock.runs r
  LEFT JOIN oarlock.fires f ON f.schedule_id = r.schedule_id AND f.logical_at = r.logical_at
 WHERE r.schedule_id IS NOT NULL AND r.retry_of IS NULL AND f.run_id IS DISTINCT FROM r.run_id
   AND r.created_at > clock_timestamp() - interval '1 day' -- later, either row may have been pruned
UNION ALL
SELECT f.run_id, f.schedule_id, f.logical_at, f.outcome
  FROM oarlock.fires f
  JOIN oarlock.runs r ON r.run_id = f.run_id
 WHERE f.outcome = 'fired' AND (r.schedule_id, r.logical_at) IS DISTINCT FROM (f.schedule_id, f.logical_at)
