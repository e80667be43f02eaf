-- Purpose: pauses a schedule
-- Index: schedules_name
-- Locks: the schedule's row and its item of the agenda until the statement is done
SELECT oarlock.pause_schedule(@dag, @name, note => @note, owner => @owner)
