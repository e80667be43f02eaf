-- Purpose: tests of sharing: how many workers have room
-- Index: none: a few rows
-- Locks: none
SELECT count(*) FROM oarlock.workers WHERE state = 'live' AND hungry > 0
