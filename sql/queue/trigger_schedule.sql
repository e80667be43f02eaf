-- Purpose: starts a run of a schedule now
-- Index: schedules_name, fires_pkey
-- Locks: the schedule's row until the statement is done
SELECT oarlock.trigger_schedule(@dag, @name, logical_at => coalesce(@at, now()), owner => @owner)
