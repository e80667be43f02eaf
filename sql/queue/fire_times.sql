-- Purpose: the next times of a schedule
-- Index: schedules_name
-- Locks: none
SELECT t FROM oarlock.schedule_times(@dag, @name, n => @n, owner => @owner) t
