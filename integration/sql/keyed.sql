-- Purpose: how many runs a key has, and one of them
-- Index: none
-- Locks: none
SELECT count(*), coalesce(min(run_id), 0) FROM oarlock.runs WHERE run_key = $1
