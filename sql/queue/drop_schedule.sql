-- Purpose: ends a schedule; its runs and the records of its fire times stay
-- Index: schedules_name
-- Locks: the schedule's row and its item of the agenda until the statement is done
SELECT oarlock.drop_schedule(@dag, @name, owner => @owner)
