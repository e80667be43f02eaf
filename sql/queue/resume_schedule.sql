-- Purpose: resumes a paused schedule, and returns when it fires next
-- Index: schedules_name
-- Locks: the schedule's row and its item of the agenda until the statement is done
SELECT oarlock.resume_schedule(@dag, @name, catch_up => @catch_up, owner => @owner)
