-- Purpose: the outcome that a backfill would have for each time
-- Index: dags_name_key, schedules_name; of each time, schedules_backfill, runs_fired, runs_refired
-- Locks: none
SELECT b.logical_at, b.outcome, coalesce(b.run, 0), b.reason
  FROM oarlock.backfill_times(@dag, @name, @from_at, @until_at, reprocess => @reprocess, newest_first => @newest_first, owner => @owner, rows => @rows) b
