-- Purpose: tests of sharing: how many items run at the moment
-- Index: none: a few rows
-- Locks: none
SELECT count(*) FROM oarlock.tasks WHERE state = 'running' AND item <> ''
