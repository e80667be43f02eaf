-- Purpose: how many runs are not over, and how many ends were not attended to
-- Index: none
-- Locks: none
SELECT (SELECT count(*) FROM oarlock.runs WHERE finished_at IS NULL) + (SELECT count(*) FROM oarlock.agenda WHERE kind = 'ended')
