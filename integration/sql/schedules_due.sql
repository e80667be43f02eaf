-- Purpose: makes all schedules due at this one moment
-- Index: none
-- Locks: all schedules and their items of the agenda
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
), moved AS (
    UPDATE oarlock.schedules s SET timing.at = m.at, decided_at = m.at - interval '1 s', created_at = m.at - interval '1 s' FROM moment m
)
UPDATE oarlock.agenda a SET at = m.at FROM moment m WHERE a.kind = 'schedule'
