-- Purpose: how many runs of schedules succeeded
-- Index: none
-- Locks: none
SELECT count(*) FROM oarlock.runs r WHERE r.schedule_id IS NOT NULL AND r.state = 'succeeded'
