-- Purpose: how many runs are not over
-- Index: none
-- Locks: none
SELECT count(*) FROM oarlock.runs WHERE finished_at IS NULL
