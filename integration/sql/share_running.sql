-- Purpose: tests of sharing: how many tasks run at the moment
-- Index: none: a few rows
-- Locks: none
SELECT count(*) FROM oarlock.tasks WHERE state = 'running'
