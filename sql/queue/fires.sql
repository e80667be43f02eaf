-- Purpose: the fire times of a schedule and their outcomes, newest first
-- Index: schedules_name, fires_pkey backwards, runs_pkey
-- Locks: none
SELECT f.logical_at, f.until, f.times, f.outcome, f.run, f.run_state, f.reason, f.decided_at
  FROM oarlock.schedule_fires(@dag, @name, since => coalesce(@since::timestamptz, '-infinity'), rows => @rows, owner => @owner) f
