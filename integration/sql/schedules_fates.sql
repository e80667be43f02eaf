-- Purpose: outcomes of the fire times of a schedule, and how many seconds after the times
-- Index: schedules_name, fires_pkey
-- Locks: none
SELECT f.outcome, f.count, extract(epoch FROM f.decided_at - f.logical_at)::float8
  FROM oarlock.schedules s JOIN oarlock.fires f USING (schedule_id) WHERE s.name = $1 ORDER BY f.logical_at
