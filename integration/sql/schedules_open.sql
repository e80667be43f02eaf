-- Purpose: how many schedules are due, and how many of their runs are not over
-- Index: none
-- Locks: none
SELECT (SELECT count(*) FROM oarlock.agenda a WHERE a.at <= clock_timestamp()) + (SELECT count(*) FROM oarlock.runs r WHERE r.schedule_id IS NOT NULL AND r.finished_at IS NULL)
