-- Purpose: makes a backfill, which starts runs for past times of a schedule
-- Index: dags_name_key, schedules_name, schedules_pkey, dag_versions_pkey
-- Locks: the row of the schedule, then the rows of the backfill
SELECT oarlock.backfill(@dag, @name, @from_at, @until_at, at_once => @at_once, reprocess => @reprocess, newest_first => @newest_first,
                        params => @params::text::jsonb, owner => @owner)
